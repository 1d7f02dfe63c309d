"""What people of the small world were told."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.every.world import Person, Setting


async def put_notification(s: Setting, person: Person, **more: Any) -> UUID:
    notification_id = new_id()
    row: dict[str, Any] = {
        "id": notification_id,
        "user_id": person.id,
        "org_id": s.org_id,
        "event_id": new_id(),
        "kind": "billing.low",
        "severity": "warning",
        "title": "An example",
        "body": "As an example.",
    }
    await s.put("notifications", **(row | more))
    return notification_id


async def put_email(s: Setting, person: Person, **more: Any) -> UUID:
    """One that failed."""
    email_id = new_id()
    row: dict[str, Any] = {
        "id": email_id,
        "user_id": person.id,
        "org_id": s.org_id,
        "notification_id": new_id(),
        "kind": "billing.low",
        "to_address": person.email,
        "content": {},
        "state": "failed",
        "last_error": "as an example",
    }
    await s.put("emails", **(row | more))
    return email_id


async def put_link(s: Setting, person: Person, action: str = "notifications.mute", **more: Any) -> UUID:
    link_id = new_id()
    row: dict[str, Any] = {
        "id": link_id,
        "org_id": s.org_id,
        "user_id": person.id,
        "action": action,
        "detail": "billing.low",
        "expires_at": clock.now() + timedelta(hours=1),
    }
    await s.put("action_links", **(row | more))
    return link_id


async def put_told(s: Setting) -> None:
    """One of everything, for the owner."""
    owner = s.people["owner"]
    await put_notification(s, owner, link_id=await put_link(s, owner))
    await put_email(s, owner)
    await s.put("notification_preferences", user_id=owner.id, kind="billing.low", email="never")
