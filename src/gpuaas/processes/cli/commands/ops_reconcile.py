"""The comparison of everything with everything: provider, ledger, meters, occupancy."""

from gpuaas.client import payments
from gpuaas.client.api import Api, decode
from gpuaas.contracts.http.billing import Flaw
from gpuaas.contracts.http.payments import ReconcileReport
from gpuaas.processes.cli.commands.ops_books import EQUATIONS, FLAWS, VERIFY_SECONDS
from gpuaas.processes.cli.declare import Group
from gpuaas.processes.cli.failures import Stop
from gpuaas.processes.cli.run import Run

GROUP = Group("ops", "Comparing.")


@GROUP.command(
    "reconcile",
    summary="Compare provider, ledger, meters and occupancy now, and make good what was not heard of.",
    about="Shows both sides of each equation, what differs and what was made good. Ends with 1 if something differs.",
)
def reconcile(run: Run) -> None:
    call = payments.reconcile()
    with Api(run.url, run.credentials, timeout_seconds=VERIFY_SECONDS) as patient:
        body = patient.send_raw(call)
    found = decode(call, body)
    if run.out.json:
        run.out.raw(body)
    else:
        reconciled(run, found)
    if not found.holds:
        message = f"Something differs: {found.difference_count} differences with the provider are open."
        raise Stop(message, "See: gpuaas ops payments differences, gpuaas ops books verify")


def reconciled(run: Run, found: ReconcileReport) -> None:
    run.out.table(EQUATIONS, found.equations, empty="No money has moved yet.")
    differing = [row for equation in found.equations for row in equation.first]
    healed = [Flaw(subject=one, problem="not heard of before; made good") for one in found.healed_objects]
    for title, rows in (("These rows differ:", differing), ("These were made good:", healed)):
        if rows:
            run.out.line("")
            run.out.line(title)
            run.out.table(FLAWS, rows, empty="")
    asked = f"{found.checkouts} pages, {found.refunds} refunds and {found.disputes} disputes were compared"
    run.out.note(
        "There is no payment provider here: only our own books were compared."
        if found.provider == "none"
        else f"{asked}; {found.healed} were made good; it took {found.seconds:.1f} s."
    )
