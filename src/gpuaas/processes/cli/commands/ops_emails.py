"""Mail that was sent, waits, or failed."""

from gpuaas.client import notifications
from gpuaas.contracts.http.notifications import EmailQuery, EmailState, EmailView
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("emails", "Mail: what was sent, what waits, what failed and why; have it tried again.")
_COLUMNS: list[Column[EmailView]] = [
    ("id", lambda one: one.id),
    ("to", lambda one: one.to_address),
    ("kind", lambda one: one.kind),
    ("state", lambda one: one.state),
    ("since", lambda one: one.state_since),
    ("tries", lambda one: one.attempts),
    ("reason", lambda one: one.last_error),
]


@GROUP.command(
    "list",
    Argument("--state", choices=tuple(state.value for state in EmailState), help="Only those in this state."),
    LIMIT,
    ALL,
    summary="List mail, the newest first.",
    examples=["gpuaas ops emails list --state failed"],
)
def email_list(run: Run, *, state: str | None, limit: int, all: bool) -> None:
    query = EmailQuery(state=None if state is None else EmailState(state))
    run.table(notifications.email_list(query), _COLUMNS, limit=limit, all=all, empty="No mail.")


@GROUP.command("retry", Argument("id", help="The email's id."), summary="Have an email tried again at once.")
def email_retry(run: Run, *, id: str) -> None:
    found = names.as_id(id)
    if found is None:
        raise UsageError(f"{id!r} is not an id.", "See them with: gpuaas ops emails list")
    run.show(notifications.email_retry(found), _COLUMNS)
