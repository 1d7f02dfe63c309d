"""What you were told, and what of it you want by email."""

from gpuaas.client import notifications
from gpuaas.client.api import decode
from gpuaas.contracts.http.notifications import (
    EmailWhen,
    NotificationQuery,
    NotificationView,
    PreferenceSet,
    PreferenceView,
)
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("notifications", "What you were told: read it, and choose what you want by email.")
DEFAULT = "default"
_COLUMNS: list[Column[NotificationView]] = [
    ("id", lambda one: one.id),
    ("at", lambda one: one.created_at),
    ("", lambda one: "" if one.read_at else "new"),
    ("severity", lambda one: one.severity),
    ("kind", lambda one: one.kind),
    ("title", lambda one: one.title),
]
_DETAIL: list[Column[NotificationView]] = [
    *_COLUMNS,
    ("text", lambda one: one.body.replace("\n", "  ")),
    ("link", lambda one: one.link),
]
_PREFERENCES: list[Column[PreferenceView]] = [
    ("kind", lambda one: one.kind),
    ("email", lambda one: f"{one.email} (mandatory)" if one.mandatory else one.email),
    ("default", lambda one: one.default),
    ("about", lambda one: one.about),
]


@GROUP.command(
    "list",
    Argument("--unread", flag=True, help="Only those you have not read."),
    Argument("--kind", help="Only of this kind, such as allocation.idle."),
    LIMIT,
    ALL,
    summary="List what you were told, the newest first.",
    examples=["gpuaas notifications list --unread"],
)
def notification_list(run: Run, *, unread: bool, kind: str | None, limit: int, all: bool) -> None:
    query = NotificationQuery(unread=unread, kind=kind)
    run.table(
        notifications.notification_list(query), _COLUMNS, limit=limit, all=all, empty="Nobody has told you anything."
    )


@GROUP.command("count", summary="Tell how many you have not read.")
def notification_count(run: Run) -> None:
    run.show(notifications.notification_count(), [("unread", lambda one: one.unread)])


@GROUP.command(
    "read",
    Argument("id", help="The notification's id; without one, all of them.", optional=True),
    summary="Show one and mark it as read; or mark all.",
)
def notification_read(run: Run, *, id: str | None) -> None:
    if id is None:
        run.show(notifications.notification_read_all(), [("read", lambda one: one.read)])
        return
    found = names.as_id(id)
    if found is None:
        raise UsageError(f"{id!r} is not an id.", "See them with: gpuaas notifications list")
    run.show(notifications.notification_read(found), _DETAIL)


@GROUP.command(
    "preferences",
    Argument("kind", help="The kind to change; without one, all are shown.", optional=True),
    Argument("email", help="always, offline (only while you are away), never, or default.", optional=True),
    summary="Show which kinds you get by email; or change one.",
    examples=["gpuaas notifications preferences", "gpuaas notifications preferences allocation.idle never"],
)
def notification_preferences(run: Run, *, kind: str | None, email: str | None) -> None:
    call = notifications.notification_preference_list()
    if kind is not None:
        call = notifications.notification_preference_set(PreferenceSet(kind=kind, email=_when(kind, email)))
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    run.out.table(_PREFERENCES, decode(call, body).preferences, empty="There are none.")


def _when(kind: str, word: str | None) -> EmailWhen | None:
    if word == DEFAULT:
        return None
    if word not in tuple(EmailWhen):
        raise UsageError(f"Say how you want {kind}: {', '.join((*EmailWhen, DEFAULT))}.")
    return EmailWhen(word)
