"""What was used, and for how long the balance lasts: commands of `gpuaas billing`."""

from typing import Any
from uuid import UUID

from gpuaas.client import usage
from gpuaas.client.api import decode
from gpuaas.contracts.http.usage import RunwayView, UsageBy, UsageFilter, UsageLine, UsageQuery
from gpuaas.kit.money import format_micros
from gpuaas.processes.cli import names
from gpuaas.processes.cli.commands.audit import instant
from gpuaas.processes.cli.declare import ORG, Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run
from gpuaas.processes.cli.saving import TO_FILE, save

GROUP = Group("billing", "")
HOUR_SECONDS = 3_600
_FILTERS = (
    ORG,
    Argument("--from", called="since", help="Charged from then on: 2026-01-31, or 12h, 7d ago. Default: 30 days."),
    Argument("--to", called="until", help="Charged before then, written the same way. Default: now."),
    Argument("--project", help="Only in this project, by name or id.", completes="project"),
    Argument("--sku", help="Only of this SKU, by id."),
    Argument("--user", help="Only what this user or service account asked for, by id."),
)
_RUNWAYS: list[Column[RunwayView]] = [
    ("balance", lambda one: format_micros(one.balance_micros, one.currency)),
    ("not charged yet", lambda one: format_micros(one.unposted_micros, one.currency)),
    ("credit line", lambda one: format_micros(one.credit_line_micros, one.currency)),
    ("an hour", lambda one: format_micros(one.burn_micros_per_hour, one.currency)),
    ("hours left", lambda one: "" if one.runway_seconds is None else f"{one.runway_seconds / HOUR_SECONDS:.1f}"),
    ("until", lambda one: one.empty_at),
]


def _columns(by: UsageBy) -> list[Column[UsageLine]]:
    return [
        (by.value, lambda one: one.name),
        ("GPU hours", lambda one: f"{one.gpu_seconds / HOUR_SECONDS:.2f}"),
        ("amount", lambda one: format_micros(one.micros, one.currency)),
    ]


def _asked(run: Run, given: dict[str, Any]) -> dict[str, Any]:
    project = given["project"]
    return {
        "from_at": instant(given["since"]),
        "to_at": instant(given["until"]),
        "project_id": None if project is None else names.project(run, project, given["org"]),
        "sku_id": _id(given["sku"], "--sku"),
        "user_id": _id(given["user"], "--user"),
    }


_NOTHING = "Nothing was charged that fits. What runs is charged by and by: gpuaas billing runway shows what is due."


@GROUP.command(
    "usage",
    *_FILTERS,
    Argument("--by", choices=tuple(by.value for by in UsageBy), default="day", help="How to sum it up. Default: day."),
    summary="Show what was used and what it cost, by day, project, SKU or user.",
    examples=["gpuaas billing usage --by project --from 7d", "gpuaas billing usage --by user --from 2026-01-01"],
)
def usage_get(run: Run, *, by: str, **filters: Any) -> None:
    call = usage.usage_get(names.org(run, filters["org"]), UsageQuery(by=UsageBy(by), **_asked(run, filters)))
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    found = decode(call, body)
    run.out.table(_columns(found.by), found.lines, empty=_NOTHING)
    if not found.complete:
        run.out.note("There is more than this: ask for less time, or use `gpuaas billing usage-export`.")


@GROUP.command(
    "usage-export",
    *_FILTERS,
    TO_FILE,
    summary="Export what was used as CSV: a line for each allocation and day.",
    examples=["gpuaas billing usage-export --from 2026-01-01 --to 2026-02-01 --to-file january.csv"],
)
def usage_export(run: Run, *, to_file: str | None, **filters: Any) -> None:
    wanted = UsageFilter(**_asked(run, filters))
    save(run, usage.usage_export_csv(names.org(run, filters["org"]), wanted), to_file)


@GROUP.command("runway", ORG, summary="Show for how long the balance lasts at what runs now.")
def runway_get(run: Run, *, org: str | None) -> None:
    call = usage.runway_get(names.org(run, org))
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    run.out.table(_RUNWAYS, decode(call, body).runways, empty="Nothing runs.")


def _id(text: str | None, option: str) -> UUID | None:
    if text is None:
        return None
    found = names.as_id(text)
    if found is None:
        raise UsageError(f"{option} takes an id, not {text!r}.")
    return found
