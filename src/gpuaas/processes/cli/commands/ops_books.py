"""The books as a whole: what they hold, and the proof that nobody changed them."""

from gpuaas.client import billing
from gpuaas.client.api import Api, decode
from gpuaas.contracts.http.billing import BooksVerification, BookView, EquationView, Flaw, ProofView, Unit
from gpuaas.kit.money import format_micros
from gpuaas.processes.cli.declare import Group
from gpuaas.processes.cli.failures import Stop
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("books", "The ledger as a whole: what its accounts hold, and the proof of it.")
VERIFY_SECONDS = 3600.0
_BOOKS: list[Column[BookView]] = [
    ("accounts", lambda one: one.kind.value),
    ("balance", lambda one: format_micros(one.balance_micros, one.currency)),
    ("how many", lambda one: one.accounts),
    ("entries", lambda one: one.entries),
]


def _side(one: EquationView, value: int) -> str:
    return format_micros(value, one.currency) if one.unit is Unit.MICROS else f"{value} s"


EQUATIONS: list[Column[EquationView]] = [
    ("equation", lambda one: one.statement),
    ("left", lambda one: _side(one, one.left)),
    ("right", lambda one: _side(one, one.right)),
    ("difference", lambda one: _side(one, one.difference)),
    ("state", lambda one: "ok" if one.holds else "failed"),
    ("note", lambda one: one.note),
]
FLAWS: list[Column[Flaw]] = [("subject", lambda flaw: flaw.subject), ("problem", lambda flaw: flaw.problem)]


def proven(run: Run, found: BooksVerification | ProofView) -> None:
    """The equations, the first rows that differ in them, and those that were changed."""
    run.out.table(EQUATIONS, found.equations, empty="No money has moved yet.")
    differing = [row for equation in found.equations for row in equation.first]
    for title, rows in (("These rows differ:", differing), ("These rows were changed:", found.flaws)):
        if rows:
            run.out.line("")
            run.out.line(title)
            run.out.table(FLAWS, rows, empty="")


def require(found: BooksVerification | ProofView) -> None:
    """Ends with 1 if something does not hold, and says what."""
    if found.holds:
        return
    rows = [*found.flaws, *(row for equation in found.equations for row in equation.first)]
    first = f" {rows[0].subject}: {rows[0].problem}" if rows else ""
    raise Stop(f"The books do not hold.{first}", "Nothing was changed by this check. Keep the database as it is.")


@GROUP.command("show", summary="Show what all accounts of each kind hold, and the equations between them.")
def books_get(run: Run) -> None:
    call = billing.books_get()
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    found = decode(call, body)
    run.out.table(_BOOKS, found.books, empty="No money has moved yet.")
    run.out.line("")
    run.out.table(EQUATIONS, found.equations, empty="")


@GROUP.command(
    "verify",
    summary="Prove the three equations of money, and that no row of the ledger was changed.",
    about="Provider payments = ledger credits; ledger debits = metered seconds × price version; metered seconds = "
    "occupancy. Ends with 1, and names the rows that were changed, if there are any.",
)
def books_verify(run: Run) -> None:
    call = billing.books_verify()
    with Api(run.url, run.credentials, timeout_seconds=VERIFY_SECONDS) as patient:
        body = patient.send_raw(call)
    found = decode(call, body)
    if run.out.json:
        run.out.raw(body)
    else:
        proven(run, found)
        run.out.note(
            f"{found.transactions} transactions and {found.entries} entries were checked; "
            f"it took {found.seconds:.1f} s."
        )
    require(found)
