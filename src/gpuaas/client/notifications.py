"""Verbs of notifications and of mail."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.notifications import (
    EmailQuery,
    EmailView,
    NotificationCount,
    NotificationQuery,
    NotificationsRead,
    NotificationView,
    PreferenceList,
    PreferenceSet,
)

_ALL = "/users/me/notifications"
_PREFERENCES = "/users/me/notification-preferences"


def notification_list(query: NotificationQuery) -> Call[Page[NotificationView]]:
    return Call(operation="notification_list", method="GET", path=_ALL, answer=Page[NotificationView], query=query)


def notification_count() -> Call[NotificationCount]:
    return Call(operation="notification_count", method="GET", path=f"{_ALL}/count", answer=NotificationCount)


def notification_read(notification_id: UUID) -> Call[NotificationView]:
    path = f"{_ALL}/{notification_id}/read"
    return Call(operation="notification_read", method="POST", path=path, answer=NotificationView)


def notification_read_all() -> Call[NotificationsRead]:
    return Call(operation="notification_read_all", method="POST", path=f"{_ALL}/read", answer=NotificationsRead)


def notification_preference_list() -> Call[PreferenceList]:
    return Call(operation="notification_preference_list", method="GET", path=_PREFERENCES, answer=PreferenceList)


def notification_preference_set(wanted: PreferenceSet) -> Call[PreferenceList]:
    return Call(
        operation="notification_preference_set", method="PUT", path=_PREFERENCES, answer=PreferenceList, body=wanted
    )


def email_list(query: EmailQuery) -> Call[Page[EmailView]]:
    return Call(operation="email_list", method="GET", path="/ops/emails", answer=Page[EmailView], query=query)


def email_retry(email_id: UUID) -> Call[EmailView]:
    path = f"/ops/emails/{email_id}/retry"
    return Call(operation="email_retry", method="POST", path=path, answer=EmailView)
