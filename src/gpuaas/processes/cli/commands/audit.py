"""The audit log."""

import re
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from gpuaas.client import audit
from gpuaas.client.call import Call
from gpuaas.contracts.http.audit import (
    AuditEntryView,
    AuditFilter,
    AuditQuery,
    CheckpointView,
    PlatformAuditFilter,
    PlatformAuditQuery,
)
from gpuaas.contracts.http.base import Page
from gpuaas.kit import clock
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, ORG, Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run
from gpuaas.processes.cli.saving import TO_FILE, save

GROUP = Group("audit", "Who did what, when and from where. Entries are sealed into a chain; nobody can change one.")
_EVERYWHERE = Argument(
    "--global", called="everywhere", flag=True, help="Of all organisations (platform admins and auditors)."
)
_FILTERS = (
    ORG,
    _EVERYWHERE,
    Argument("--project", help="Only in this project, by name or id.", completes="project"),
    Argument("--action", help="Only this action, such as project.create."),
    Argument("--actor", help="Only by this user or service account, by id."),
    Argument("--subject", help="Only about this thing, by id."),
    Argument("--from", called="since", help="From then on: 2026-01-31, 2026-01-31T08:00Z, or 90m, 12h, 7d ago."),
    Argument("--to", called="until", help="Before then, written the same way."),
)


class _Named(msgspec.Struct):
    name: str = ""


def named(entry: AuditEntryView) -> str:
    """What a change was about that has no id but a name: a policy."""
    try:
        return msgspec.json.decode(bytes(entry.details), type=_Named).name
    except msgspec.MsgspecError:
        return ""


_COLUMNS: list[Column[AuditEntryView]] = [
    ("at", lambda entry: entry.at),
    ("action", lambda entry: entry.action),
    ("who", lambda entry: entry.actor_name or entry.actor_kind),
    ("from", lambda entry: entry.client_ip),
    ("subject", lambda entry: entry.subject_id or named(entry)),
    ("correlation id", lambda entry: entry.correlation_id),
]
_AGO = re.compile(r"^(\d{1,6})([smhd])$")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def instant(text: str | None) -> datetime | None:
    """A time as a person writes it: a date, an instant, or how long ago. Without a zone it is this machine's."""
    if text is None:
        return None
    ago = _AGO.match(text)
    if ago:
        return clock.now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        advice = "Write 2026-01-31, 2026-01-31T08:00Z, or 12h for twelve hours ago."
        raise UsageError(f"{text!r} is no time.", advice) from None
    return found if found.tzinfo else found.astimezone()


def _asked(run: Run, given: dict[str, Any]) -> dict[str, Any]:
    """The filters as the API takes them."""
    everywhere, org, project = given["everywhere"], given["org"], given["project"]
    asked: dict[str, Any] = {
        "actor_id": _id(given["actor"], "--actor"),
        "subject_id": _id(given["subject"], "--subject"),
        "action": given["action"],
        "project_id": None if project is None else names.project(run, project, org),
        "from_at": instant(given["since"]),
        "to_at": instant(given["until"]),
    }
    if everywhere and org is not None:
        asked["org_id"] = names.org(run, org)
    return asked


def _id(text: str | None, option: str) -> UUID | None:
    if text is None:
        return None
    found = names.as_id(text)
    if found is None:
        raise UsageError(f"{option} takes an id, not {text!r}.")
    return found


@GROUP.command(
    "list",
    *_FILTERS,
    LIMIT,
    ALL,
    summary="List entries, newest first.",
    examples=["gpuaas audit list --from 24h --action project.create"],
)
def audit_list(run: Run, *, limit: int, all: bool, **filters: Any) -> None:
    asked = _asked(run, filters)
    call: Call[Page[AuditEntryView]]
    if filters["everywhere"]:
        call = audit.audit_platform_list(PlatformAuditQuery(**asked))
    else:
        call = audit.audit_list(names.org(run, filters["org"]), AuditQuery(**asked))
    run.table(call, _COLUMNS, limit=limit, all=all, empty="Nothing happened that fits.")


@GROUP.command(
    "show", Argument("entry", help="The entry's id."), ORG, _EVERYWHERE, summary="Show one entry and its seal."
)
def audit_show(run: Run, *, entry: str, org: str | None, everywhere: bool) -> None:
    entry_id = _id(entry, "audit show")
    assert entry_id is not None  # noqa: S101 # an argument that is not optional
    call = audit.audit_platform_get(entry_id) if everywhere else audit.audit_get(names.org(run, org), entry_id)
    fields: list[Column[Any]] = [
        *_COLUMNS,
        ("operation", lambda one: one.operation),
        ("actor id", lambda one: one.actor_id),
        ("organisation", lambda one: one.org_id),
        ("project", lambda one: one.project_id),
        ("details", lambda one: bytes(one.details).decode()),
        ("seal", lambda one: f"{one.seal.seq}: {one.seal.hash}" if one.seal else "not yet"),
    ]
    run.show(call, fields)


@GROUP.command(
    "export",
    *_FILTERS,
    Argument("--format", choices=("jsonl", "csv"), default="jsonl", help="JSON lines or CSV. Default: jsonl."),
    TO_FILE,
    summary="Export entries, oldest first.",
    examples=["gpuaas audit export --from 2026-01-01 --format csv --to-file audit.csv"],
)
def audit_export(run: Run, *, format: str, to_file: str | None, **filters: Any) -> None:
    save(run, _export(run, filters, format), to_file)


def _export(run: Run, filters: dict[str, Any], format: str) -> Call[bytes]:
    asked = _asked(run, filters)
    if filters["everywhere"]:
        wanted = PlatformAuditFilter(**asked)
        return audit.audit_platform_export_csv(wanted) if format == "csv" else audit.audit_platform_export_jsonl(wanted)
    org_id = names.org(run, filters["org"])
    if format == "csv":
        return audit.audit_export_csv(org_id, AuditFilter(**asked))
    return audit.audit_export_jsonl(org_id, AuditFilter(**asked))


_CHECKPOINTS: list[Column[CheckpointView]] = [
    ("entry", lambda point: point.seq),
    ("at", lambda point: point.at),
    ("hash", lambda point: point.hash),
    ("key", lambda point: point.key_id),
]


@GROUP.command("checkpoints", LIMIT, ALL, summary="List the signed heads of the chain (platform).")
def checkpoint_list(run: Run, *, limit: int, all: bool) -> None:
    call = audit.audit_checkpoint_list()
    run.table(call, _CHECKPOINTS, limit=limit, all=all, empty="Nothing was sealed yet.")
