"""A user's notifications, and which of them he wants by email."""

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.notifications import (
    NotificationCount,
    NotificationQuery,
    NotificationsRead,
    NotificationView,
    PreferenceList,
    PreferenceSet,
)
from gpuaas.contracts.permissions import P
from gpuaas.domains.notifications import service
from gpuaas.domains.notifications.links.tokens import LinkSigner
from gpuaas.domains.notifications.models import Notification
from gpuaas.domains.notifications.preferences import service as preferences
from gpuaas.infra.http.context import UserContext
from gpuaas.infra.http.listing import before, page
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import NotificationId

_ALL = "/users/me/notifications"


@operation("GET", _ALL, permission=P.SELF, lane=Lane.DEFAULT)
async def notification_list(cx: UserContext, query: NotificationQuery) -> Page[NotificationView]:
    """List what you were told, the newest first."""
    rows = await service.notification_list(
        cx.tx,
        cx.user_id,
        before=before(cx, query),
        unread=query.unread,
        kind=query.kind,
        limit=query.limit + 1,
    )
    return page(cx, query, rows, lambda row: view(cx, row))


@operation("GET", _ALL + "/count", permission=P.SELF, lane=Lane.DEFAULT)
async def notification_count(cx: UserContext) -> NotificationCount:
    """Tell how many you have not read. Counting stops at a thousand."""
    return NotificationCount(unread=await service.unread_count(cx.tx, cx.user_id))


@operation(
    "POST",
    _ALL + "/{notification_id}/read",
    permission=P.SELF,
    lane=Lane.DEFAULT,
    audit="notification.read",
    errors=(Code.NOTIFICATION_MISSING,),
)
async def notification_read(cx: UserContext, notification_id: NotificationId) -> NotificationView:
    """Mark one as read."""
    return view(cx, await service.notification_read(cx.tx, cx.user_id, notification_id))


@operation("POST", _ALL + "/read", permission=P.SELF, lane=Lane.DEFAULT, audit="notification.read_all")
async def notification_read_all(cx: UserContext) -> NotificationsRead:
    """Mark all of them as read."""
    return NotificationsRead(read=await service.notifications_read_all(cx.tx, cx.user_id))


@operation("GET", "/users/me/notification-preferences", permission=P.SELF, lane=Lane.DEFAULT)
async def notification_preference_list(cx: UserContext) -> PreferenceList:
    """List every kind of notification, and whether you get it by email."""
    return PreferenceList(preferences=await preferences.preference_list(cx.tx, cx.user_id))


@operation(
    "PUT",
    "/users/me/notification-preferences",
    permission=P.SELF,
    lane=Lane.DEFAULT,
    audit="notification.preference_set",
    errors=(Code.NOTIFICATION_KIND_MISSING, Code.NOTIFICATION_MANDATORY),
)
async def notification_preference_set(cx: UserContext, wanted: PreferenceSet) -> PreferenceList:
    """Say whether you want a kind by email: always, only while you are away, or never.

    What warns of work being stopped or released for want of money is always sent."""
    await preferences.preference_set(cx.tx, cx.user_id, wanted.kind, wanted.email)
    return PreferenceList(preferences=await preferences.preference_list(cx.tx, cx.user_id))


def view(cx: UserContext, row: Notification) -> NotificationView:
    link = "" if row.link_id is None else cx.parts.get(LinkSigner).url(row.link_id)
    fields = {name: getattr(row, name) for name in NotificationView.__struct_fields__ if name != "link"}
    return msgspec.convert(fields | {"link": link}, NotificationView)
