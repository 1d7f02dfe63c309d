"""The proof of the books: all of them, for operators and auditors; its own, for an organisation."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.billing import BooksVerification, Flaw, ProofView
from gpuaas.contracts.http.payments import ReconcileReport
from gpuaas.contracts.permissions import P
from gpuaas.domains.admin.books import service
from gpuaas.domains.billing.books.routes import equation_view
from gpuaas.domains.payments.reconciling.routes import view as difference_view
from gpuaas.infra.http.context import OrgContext, PlatformContext
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit import clock
from gpuaas.ports.payments import PaymentProvider


@operation(
    "GET",
    "/ops/books/verify",
    permission=P.PLATFORM_READ,
    lane=Lane.ADMIN,
    transaction=False,
    tag="billing",
    errors=(Code.REQUEST_IN_PROGRESS,),
)
async def books_verify(cx: PlatformContext) -> BooksVerification:
    """Check the three equations and make every hash of the ledger again, in one snapshot.

    Provider payments are ledger credits, ledger debits are metered seconds times price version, metered seconds are
    occupancy. Names the rows that differ or were changed. One at a time: a second one hears that one is under way."""
    at, started = clock.now(), clock.monotonic()
    equations, proof = await service.books_verify(cx.db)
    return BooksVerification(
        holds=proof.count == 0 and all(one.holds for one in equations),
        at=at,
        seconds=round(clock.monotonic() - started, 3),
        transactions=proof.transactions,
        entries=proof.entries,
        equations=[equation_view(one) for one in equations],
        flaw_count=proof.count,
        flaws=[Flaw(subject=one.subject, problem=one.problem) for one in proof.problems],
    )


@operation("GET", "/orgs/{org_id}/proof", permission=P.BILLING_READ, lane=Lane.ADMIN, transaction=False, tag="billing")
async def proof_get(cx: OrgContext) -> ProofView:
    """Prove the organisation's own books: the three equations of what it paid, used and held, and the hashes of its
    entries."""
    at = clock.now()
    equations, proof = await service.proof_get(cx.db, cx.org_id)
    return ProofView(
        holds=proof.count == 0 and all(one.holds for one in equations),
        at=at,
        entries=proof.entries,
        equations=[equation_view(one) for one in equations],
        flaw_count=proof.count,
        flaws=[Flaw(subject=one.subject, problem=one.problem) for one in proof.problems],
    )


async def _reconciled(cx: PlatformContext) -> ReconcileReport:
    at, started = clock.now(), clock.monotonic()
    provider = cx.parts.get(PaymentProvider)  # type: ignore[type-abstract] # the part is whatever implements it
    found = await service.reconcile(cx.db, provider)
    asked = found.report
    return ReconcileReport(
        holds=found.holds,
        at=at,
        seconds=round(clock.monotonic() - started, 3),
        provider=provider.name,
        checkouts=asked.checkouts if asked else 0,
        refunds=asked.refunds if asked else 0,
        disputes=asked.disputes if asked else 0,
        healed=asked.healed if asked else 0,
        healed_objects=asked.healed_objects if asked else [],
        equations=[equation_view(one) for one in found.equations],
        difference_count=found.difference_count,
        differences=[difference_view(one) for one in found.differences],
    )


@operation(
    "POST",
    "/ops/reconcile",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="billing.reconcile",
    prepare=_reconciled,
    tag="billing",
    errors=(Code.REQUEST_IN_PROGRESS, Code.PAYMENT_PROVIDER_AWAY, Code.PAYMENT_PROVIDER_REFUSED),
)
async def reconcile(cx: PlatformContext) -> ReconcileReport:
    """Compare provider, ledger, meters and occupancy now.

    The provider is asked for its lists as the timer does every five minutes; what we had not heard of is made good.
    Answers with both sides of each equation, and with what differs still."""
    report: ReconcileReport = cx.prepared
    return report
