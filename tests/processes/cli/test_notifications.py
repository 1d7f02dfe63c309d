"""What one was told, preferences, and the operator's view of mail, by the command line, on the live API."""

from typing import Any

from gpuaas.kit.ids import new_id
from tests.support.terminal import Terminal

Told = tuple[Any, Any]


async def told(terminal: Terminal, sql: Any) -> Told:
    """He has one unread notification and one email that failed."""
    who = (await terminal.run("whoami", "-o", "json")).json
    user_id, org_id = who["id"], who["orgs"][0]["org_id"]
    notification_id, email_id = new_id(), new_id()
    await sql.execute(
        "INSERT INTO notifications (id, user_id, org_id, event_id, kind, severity, title, body) "
        "VALUES ($1, $2, $3, $1, 'billing.low', 'warning', 'The balance is low', 'Two hours are left.')",
        notification_id,
        user_id,
        org_id,
    )
    await sql.execute(
        "INSERT INTO emails (id, user_id, org_id, notification_id, kind, to_address, content, state, last_error) "
        "VALUES ($1, $2, $3, $4, 'billing.low', 'ada@example.com', '{}', 'failed', '550 no such user')",
        email_id,
        user_id,
        org_id,
        notification_id,
    )
    return notification_id, email_id


async def test_a_person_reads_what_he_was_told(ada: Terminal, past_all_walls: Any):
    notification_id, _ = await told(ada, past_all_walls)
    listed = await ada.good("notifications", "list", "--unread")
    assert "The balance is low" in listed
    read = await ada.good("notifications", "read", str(notification_id))
    assert "Two hours are left." in read
    assert str(notification_id) not in await ada.good("notifications", "list", "--unread")
    await told(ada, past_all_walls)
    await ada.good("notifications", "read")
    assert "0" in await ada.good("notifications", "count")
    assert (await ada.run("notifications", "read", "it")).code == 2
    assert (await ada.run("notifications", "read", str(new_id()))).code == 5


async def test_a_person_chooses_what_he_gets_by_email(ada: Terminal):
    shown = await ada.good("notifications", "preferences")
    assert "allocation.idle" in shown
    assert "mandatory" in next(line for line in shown.splitlines() if "billing.empty" in line)
    changed = await ada.good("notifications", "preferences", "allocation.idle", "never")
    assert "never" in next(line for line in changed.splitlines() if "allocation.idle" in line)
    await ada.good("notifications", "preferences", "allocation.idle", "default")
    assert (await ada.run("notifications", "preferences", "allocation.idle", "sometimes")).code == 2
    assert (await ada.run("notifications", "preferences", "billing.empty", "never")).code == 1


async def test_an_operator_sees_mail_that_failed_and_has_it_tried_again(admin: Terminal, past_all_walls: Any):
    _, email_id = await told(admin, past_all_walls)
    listed = await admin.good("ops", "emails", "list", "--state", "failed")
    assert "550 no such user" in next(line for line in listed.splitlines() if str(email_id) in line)
    assert "queued" in await admin.good("ops", "emails", "retry", str(email_id))
    assert (await admin.run("ops", "emails", "retry", "that")).code == 2
