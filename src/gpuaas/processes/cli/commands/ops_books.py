"""The books as a whole: what they hold, and the proof that nobody changed them."""

from gpuaas.client import billing
from gpuaas.client.api import Api, decode
from gpuaas.contracts.http.billing import BookView, EquationView
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
_EQUATIONS: list[Column[EquationView]] = [
    ("equation", lambda one: one.statement),
    ("left", lambda one: format_micros(one.left_micros, one.currency)),
    ("right", lambda one: format_micros(one.right_micros, one.currency)),
    ("state", lambda one: "ok" if one.holds else "failed"),
]


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
    run.out.table(_EQUATIONS, found.equations, empty="")


@GROUP.command(
    "verify",
    summary="Prove that the books agree and that no row of the ledger was changed.",
    about="Ends with 1, and names the rows that were changed, if there are any.",
)
def books_verify(run: Run) -> None:
    call = billing.books_verify()
    with Api(run.url, run.credentials, timeout_seconds=VERIFY_SECONDS) as patient:
        body = patient.send_raw(call)
    found = decode(call, body)
    if run.out.json:
        run.out.raw(body)
    else:
        run.out.table(_EQUATIONS, found.equations, empty="No money has moved yet.")
        if found.flaws:
            run.out.line("")
            run.out.table(
                [("subject", lambda flaw: flaw.subject), ("problem", lambda flaw: flaw.problem)], found.flaws, empty=""
            )
        run.out.note(
            f"{found.transactions} transactions and {found.entries} entries were checked; "
            f"it took {found.seconds:.1f} s."
        )
    if not found.holds:
        first = f" {found.flaws[0].subject}: {found.flaws[0].problem}" if found.flaws else ""
        raise Stop(f"The books do not hold.{first}", "Nothing was changed by this check. Keep the database as it is.")
