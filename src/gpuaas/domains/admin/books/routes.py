"""The proof of the books: all of them, for operators and auditors; its own, for an organisation."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.billing import BooksVerification, Flaw, ProofView
from gpuaas.contracts.permissions import P
from gpuaas.domains.admin.books import service
from gpuaas.domains.billing.books.routes import equation_view
from gpuaas.infra.http.context import OrgContext, PlatformContext
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit import clock


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
