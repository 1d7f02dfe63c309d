"""What the books hold: for operators and auditors. Their proof is with those who see what lies above them."""

import msgspec

from gpuaas.contracts.http.billing import BooksView, BookView, EquationView, Flaw
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
        equations=[equation_view(one) for one in equations],
    )


def equation_view(one: Equation) -> EquationView:
    return EquationView(
        name=one.name,
        statement=one.statement,
        unit=one.unit,
        currency=one.currency,
        left=one.left,
        right=one.right,
        difference=one.difference,
        holds=one.holds,
        note=one.note,
        first=[Flaw(subject=row.subject, problem=row.problem) for row in one.first],
    )
