"""How an organisation stands with its money: commands of `gpuaas billing`."""

from uuid import UUID

from gpuaas.client import standing
from gpuaas.client.api import decode
from gpuaas.client.call import Call
from gpuaas.contracts.http.standing import StandingsView, StandingView
from gpuaas.kit.money import format_micros
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ORG, Group
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("billing", "")
HOUR_SECONDS = 3_600
_STANDINGS: list[Column[StandingView]] = [
    ("standing", lambda one: one.rung.value),
    ("since", lambda one: one.since),
    ("next", lambda one: "" if one.next_rung is None else one.next_rung.value),
    ("at", lambda one: one.due_at),
    ("paused until", lambda one: one.paused_until),
    ("to spend", lambda one: format_micros(one.spendable_micros, one.currency)),
    ("an hour", lambda one: format_micros(one.burn_micros_per_hour, one.currency)),
    ("hours left", lambda one: "" if one.runway_seconds is None else f"{one.runway_seconds / HOUR_SECONDS:.1f}"),
]


@GROUP.command(
    "standing",
    ORG,
    summary="Show how an organisation stands: what comes next and when, and how to stop it.",
    examples=["gpuaas billing standing --org acme"],
)
def standing_get(run: Run, *, org: str | None) -> None:
    show(run, standing.standing_get(names.org(run, org)))


def show(run: Run, call: Call[StandingsView]) -> None:
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    found = decode(call, body).standings
    run.out.table(_STANDINGS, found, empty="")
    for one in found:
        run.out.note(_said(one))


def say(run: Run, org_id: UUID, currency: str) -> None:
    """One line below a balance."""
    for one in run.api.send(standing.standing_get(org_id)).standings:
        if one.currency == currency:
            run.out.note(_said(one))


def _said(one: StandingView) -> str:
    return f"Standing: {one.rung.value}{_left(one.runway_seconds)}. {one.advice}"


def _left(seconds: int | None) -> str:
    """Below an hour in minutes: nobody acts on 0.0 hours."""
    if not seconds:
        return ""
    if seconds < HOUR_SECONDS:
        return f", {seconds // 60} minutes left" if seconds >= 120 else ", less than two minutes left"
    return f", {seconds / HOUR_SECONDS:.1f} hours left"
