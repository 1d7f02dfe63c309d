"""The verbs of the books."""

from gpuaas.contracts.http.billing import AccountKind
from gpuaas.domains.billing.books import store
from gpuaas.domains.billing.books.models import Book, Equation, Proof
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx


async def books_get(tx: Tx) -> tuple[list[Book], list[Equation]]:
    """What all accounts of each kind hold, and whether they agree."""
    found = await store.books(tx)
    return found, equations(found)


async def books_verify(db: Database) -> tuple[list[Equation], Proof]:
    """The equations and every hash, in one snapshot: what is told was true at one instant."""
    async with db.inspection(Sight(PLATFORM)) as tx:
        return equations(await store.books(tx)), await store.proof(tx)


def equations(books: list[Book]) -> list[Equation]:
    """What organisations have is what the platform's accounts gave them."""
    return [
        Equation(
            name="two_sides",
            statement="what organisations have is what the platform's accounts gave them",
            currency=currency,
            left_micros=sum(b.balance_micros for b in books if b.currency == currency and b.kind == AccountKind.TENANT),
            right_micros=-sum(
                b.balance_micros for b in books if b.currency == currency and b.kind != AccountKind.TENANT
            ),
        )
        for currency in sorted({book.currency for book in books})
    ]
