"""Giving organisations time whose balance is used up."""

from datetime import timedelta

from gpuaas.client import standing
from gpuaas.contracts.http.standing import StandingPause
from gpuaas.kit import clock
from gpuaas.kit.money import DEFAULT_CURRENCY
from gpuaas.processes.cli import names
from gpuaas.processes.cli.commands.audit import instant
from gpuaas.processes.cli.commands.billing_standing import show
from gpuaas.processes.cli.declare import ORG, REASON, Argument, Group
from gpuaas.processes.cli.run import Run

GROUP = Group("standing", "Organisations whose balance is used up: give them time.")
_CURRENCY = Argument("--currency", default=DEFAULT_CURRENCY, help=f"Default: {DEFAULT_CURRENCY}.")


@GROUP.command(
    "pause",
    ORG,
    _CURRENCY,
    Argument("--until", help="Nothing is stopped or released before: 2026-01-31T08:00Z. Default: a day from now."),
    REASON,
    summary="Do not stop or release anything of an organisation for its empty balance, until an instant.",
    examples=['gpuaas ops standing pause --org ORG_ID --until 2026-01-31 --reason "their transfer is on its way"'],
)
def standing_pause(run: Run, *, org: str | None, currency: str, until: str | None, reason: str) -> None:
    ends = instant(until) or clock.now() + timedelta(days=1)
    wanted = StandingPause(until=ends, currency=currency, reason=reason)
    show(run, standing.standing_pause(names.org(run, org), wanted))


@GROUP.command("resume", ORG, _CURRENCY, REASON, summary="End a pause: what counted down counts again.")
def standing_resume(run: Run, *, org: str | None, currency: str, reason: str) -> None:
    wanted = StandingPause(until=None, currency=currency, reason=reason)
    show(run, standing.standing_pause(names.org(run, org), wanted))
