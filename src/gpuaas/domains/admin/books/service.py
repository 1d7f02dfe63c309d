"""The verbs of the proof: all equations and every hash, in one snapshot."""

from uuid import UUID

from gpuaas.contracts.http.billing import Unit
from gpuaas.domains.admin.books import store
from gpuaas.domains.admin.books.models import Reconciled
from gpuaas.domains.billing.books import service as books
from gpuaas.domains.billing.books.models import Equation, Problem, Proof
from gpuaas.domains.payments.reconciling import service as payments
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit.ids import OrgId
from gpuaas.kit.money import DEFAULT_CURRENCY
from gpuaas.ports.payments import PaymentProvider

MOST_ROWS = 20
_NEWEST = UUID(int=(1 << 128) - 1)


async def books_verify(db: Database) -> tuple[list[Equation], Proof]:
    """What is told was true at one instant."""
    async with db.inspection(Sight(PLATFORM)) as tx:
        proof = await books.proof(tx)
        _, sides = await books.books_get(tx)
        return [*await provider_equations(tx), *await equations(tx), *sides], proof


async def proof_get(db: Database, org_id: OrgId) -> tuple[list[Equation], Proof]:
    """The same of one organisation, from what it may see itself."""
    async with db.snapshot(Sight(org_id)) as tx:
        proof = await books.own_proof(tx)
        return [*await payment_equations(tx), *await equations(tx)], proof


async def reconcile(db: Database, provider: PaymentProvider) -> Reconciled:
    """Ask the provider now, make good what we had not heard of, then compare both sides of all at one instant."""
    asked = None if provider.name == "none" else await payments.payments_reconcile(db, provider)
    async with db.inspection(Sight(PLATFORM)) as tx:
        return Reconciled(
            report=asked,
            equations=[*await provider_equations(tx), *await equations(tx)],
            difference_count=await payments.difference_count(tx),
            differences=await payments.difference_list(tx, before=_NEWEST, settled=False, limit=MOST_ROWS),
        )


async def provider_equations(tx: Tx) -> list[Equation]:
    """The first, by currency: what the provider says it took, less what it gave back, is what the ledger credits."""
    known = {side.currency: side for side in await payments.sides(tx)}
    odd = await store.unexplained(tx)
    differing = [
        (one.currency, Problem(one.object_id, f"{one.kind}: {one.detail}"))
        for one in await payments.difference_list(tx, before=_NEWEST, settled=False, limit=MOST_ROWS)
    ]
    made = []
    for currency in sorted({*known, *odd}) or [DEFAULT_CURRENCY]:
        side, (micros, rows) = known.get(currency), odd.get(currency, (0, []))
        asked = "the provider was not asked yet" if side is None or side.as_of is None else f"asked {side.as_of:%F %T}"
        made.append(
            Equation(
                name="payments_are_credits",
                statement="provider payments = ledger credits",
                currency=currency,
                left=0 if side is None else side.provider_micros,
                right=micros + (0 if side is None else side.ledger_micros),
                note="no payment was compared yet" if not known and not odd else asked,
                first=[*rows, *(row for of, row in differing if of == currency)][:MOST_ROWS],
            )
        )
    return made


async def payment_equations(tx: Tx) -> list[Equation]:
    """The first as an organisation sees it: what it paid is what was credited."""
    first = await store.paid_otherwise(tx)
    return [
        Equation(
            name="payments_are_credits",
            statement="payments that succeeded = top-ups in the ledger",
            currency=currency,
            left=paid,
            right=credited,
            first=first.get(currency, []),
        )
        for currency, paid, credited in await store.paid(tx) or [(DEFAULT_CURRENCY, 0, 0)]
    ]


async def equations(tx: Tx) -> list[Equation]:
    """The second and the third: of what is seen."""
    return [*await books.usage_equations(tx), await occupancy_equation(tx)]


async def occupancy_equation(tx: Tx) -> Equation:
    metered, occupied = await store.occupied(tx)
    return Equation(
        name="usage_is_occupancy",
        statement="metered seconds = seconds held, proven and usable",
        currency="",
        unit=Unit.SECONDS,
        left=metered,
        right=occupied,
        first=await store.occupied_otherwise(tx),
    )
