"""The verbs of the books: what they hold, their own equations, and the proof that no row was changed.

Equations with what lies above the ledger are put beside these by whoever sees both: the domain of operating."""

from gpuaas.contracts.http.billing import AccountKind
from gpuaas.domains.billing.books import store
from gpuaas.domains.billing.books.models import Book, Equation, Proof
from gpuaas.infra.postgres.tx import Tx


async def books_get(tx: Tx) -> tuple[list[Book], list[Equation]]:
    """What all accounts of each kind hold, and whether they agree."""
    found = await store.books(tx)
    return found, two_sides(found)


async def proof(tx: Tx) -> Proof:
    """Every hash made again, and the invariants of the ledger."""
    return await store.proof(tx)


async def own_proof(tx: Tx) -> Proof:
    """The same of what an organisation sees: its own entries."""
    return await store.own_proof(tx)


async def usage_equations(tx: Tx) -> list[Equation]:
    """The second equation, by currency: what the ledger took for use is what the metered seconds cost."""
    found = await store.used(tx)
    first = await store.used_otherwise(tx)
    return [
        Equation(
            name="debits_are_usage",
            statement="ledger debits for use = metered seconds × price version",
            currency=currency,
            left=ledger,
            right=rated,
            first=first.get(currency, []),
        )
        for currency, (ledger, rated) in sorted(found.items())
    ]


def two_sides(books: list[Book]) -> list[Equation]:
    """What organisations have is what the platform's accounts gave them."""
    return [
        Equation(
            name="two_sides",
            statement="what organisations have = what the platform's accounts gave them",
            currency=currency,
            left=sum(b.balance_micros for b in books if b.currency == currency and b.kind == AccountKind.TENANT),
            right=-sum(b.balance_micros for b in books if b.currency == currency and b.kind != AccountKind.TENANT),
        )
        for currency in sorted({book.currency for book in books})
    ]
