"""Operations on the books as a whole: for operators and auditors."""

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.billing import BooksVerification, BooksView, BookView, EquationView, Flaw
from gpuaas.contracts.permissions import P
from gpuaas.domains.billing.books import service
from gpuaas.domains.billing.books.models import Equation
from gpuaas.infra.http.context import PlatformContext
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit import clock


@operation("GET", "/admin/books", permission=P.PLATFORM_READ, lane=Lane.ADMIN, tag="billing")
async def books_get(cx: PlatformContext) -> BooksView:
    """Show what all accounts of each kind hold, and the equations between them."""
    books, equations = await service.books_get(cx.tx)
    return BooksView(
        at=clock.now(),
        books=[BookView(**msgspec.structs.asdict(book)) for book in books],
        equations=[_equation(one) for one in equations],
    )


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
    """Make every hash of the ledger again and check its equations, in one snapshot.

    Names the rows that were changed. One at a time: a second one hears that one is under way."""
    at, started = clock.now(), clock.monotonic()
    equations, proof = await service.books_verify(cx.db)
    return BooksVerification(
        holds=proof.count == 0 and all(one.holds for one in equations),
        at=at,
        seconds=round(clock.monotonic() - started, 3),
        transactions=proof.transactions,
        entries=proof.entries,
        equations=[_equation(one) for one in equations],
        flaw_count=proof.count,
        flaws=[Flaw(subject=one.subject, problem=one.problem) for one in proof.problems],
    )


def _equation(one: Equation) -> EquationView:
    return EquationView(**msgspec.structs.asdict(one), holds=one.holds)
