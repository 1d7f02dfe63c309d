"""What people are told: each once, each his own, by email as they want it."""

from datetime import timedelta
from typing import Any

from gpuaas.contracts.events.billing import BalanceAdjusted, StandingChanged
from gpuaas.contracts.http.standing import Rung
from gpuaas.domains.notifications.handlers import notifications_prune
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.support.people import Person, found, refusal
from tests.support.post_office import PostOffice

KEPT_DAYS = "retention.notification_days"


def standing(rung: Rung = Rung.EMPTY) -> StandingChanged:
    due_at = clock.now() + timedelta(minutes=15)
    return StandingChanged(
        currency="USD", was=Rung.LOW, rung=rung, due_at=due_at, balance_micros=-1_000_000, runway_seconds=0
    )


def adjusted() -> BalanceAdjusted:
    return BalanceAdjusted(
        adjustment_id=new_id(), transaction_id=new_id(), currency="USD", amount_micros=5_000_000, balance_micros=9
    )


async def offline(superuser: Any, who: Person) -> None:
    await superuser.execute("UPDATE users SET last_login_at = now() - interval '1 hour' WHERE id = $1", who.id)


async def test_those_who_may_pay_are_told_once_however_often_the_event_comes(office: PostOffice):
    event_id = await office.tell(standing(), times=3)
    for who in (office.owner, office.billing):
        [told] = await office.inbox(who)
        assert (told["kind"], told["severity"], told["read_at"]) == ("billing.empty", "critical", None)
        assert "used up" in told["title"]
        assert told["org_id"] == str(office.org_id)
    assert await office.inbox(office.member) == []
    assert {row["to_address"] for row in await office.emails(event_id)} == {office.owner.email, office.billing.email}


async def test_nobody_reads_or_marks_what_another_was_told(office: PostOffice):
    await office.tell(standing())
    [mine] = await office.inbox(office.owner)
    path = f"/users/me/notifications/{mine['id']}/read"
    assert refusal(await office.city.ask(office.billing, "POST", path)) == (404, "notification_missing")
    assert refusal(await office.city.ask(office.member, "POST", path)) == (404, "notification_missing")
    assert (await office.inbox(office.owner))[0]["read_at"] is None


async def test_reading_one_and_reading_all_is_counted(office: PostOffice):
    for _ in range(3):
        await office.tell(adjusted())

    async def unread() -> int:
        counted: int = (await office.city.get(office.owner, "/users/me/notifications/count"))["unread"]
        return counted

    assert await unread() == 3
    first = (await office.inbox(office.owner))[0]
    path = f"/users/me/notifications/{first['id']}/read"
    read = found(await office.city.ask(office.owner, "POST", path), 200)
    again = found(await office.city.ask(office.owner, "POST", path), 200)
    assert read["read_at"] == again["read_at"] is not None
    assert await unread() == 2
    assert len(await office.inbox(office.owner, unread="true")) == 2
    assert found(await office.city.ask(office.owner, "POST", "/users/me/notifications/read"), 200) == {"read": 2}
    assert await unread() == 0
    assert len(await office.inbox(office.owner)) == 3


async def test_a_list_goes_on_where_its_page_ended(office: PostOffice):
    for _ in range(5):
        await office.tell(adjusted())
    first = await office.city.get(office.owner, "/users/me/notifications", limit=3)
    second = await office.city.get(office.owner, "/users/me/notifications", limit=3, cursor=first["next_cursor"])
    ids = [one["id"] for one in first["items"] + second["items"]]
    assert ids == sorted(ids, reverse=True)
    assert (len(ids), len(set(ids)), second["next_cursor"]) == (5, 5, None)


async def test_a_disabled_user_and_one_who_left_are_told_nothing(office: PostOffice, superuser: Any):
    left = await office.city.person("gone")
    await office.city.join(office.owner, str(office.org_id), left, "billing")
    assert (await office.city.ask(left, "POST", f"/orgs/{office.org_id}/leave")).status_code == 200
    await superuser.execute("UPDATE users SET state = 'disabled' WHERE id = $1", office.billing.id)
    event_id = await office.tell(standing())
    assert [row["to_address"] for row in await office.emails(event_id)] == [office.owner.email]


async def test_a_user_chooses_what_he_gets_by_email(office: PostOffice, superuser: Any):
    async def prefer(email: str | None) -> None:
        body = {"kind": "billing.adjusted", "email": email}
        found(await office.city.ask(office.owner, "PUT", "/users/me/notification-preferences", body), 200)

    async def mailed() -> bool:
        event_id = await office.tell(adjusted())
        return office.owner.email in {row["to_address"] for row in await office.emails(event_id)}

    assert await mailed()
    await prefer("never")
    assert not await mailed()
    await prefer("offline")
    assert not await mailed(), "he was here a moment ago"
    await offline(superuser, office.owner)
    assert await mailed()
    await prefer(None)
    assert await mailed()
    assert len(await office.inbox(office.owner)) == 5, "what he reads here does not depend on it"


async def test_what_costs_running_work_cannot_be_silenced(office: PostOffice):
    listed = await office.city.get(office.owner, "/users/me/notification-preferences")
    mandatory = [one["kind"] for one in listed["preferences"] if one["mandatory"]]
    assert "billing.empty" in mandatory
    for kind in mandatory:
        body = {"kind": kind, "email": "never"}
        answer = await office.city.ask(office.owner, "PUT", "/users/me/notification-preferences", body)
        assert refusal(answer) == (422, "notification_mandatory")
    answer = await office.city.ask(
        office.owner, "PUT", "/users/me/notification-preferences", {"kind": "no.such", "email": "never"}
    )
    assert refusal(answer) == (404, "notification_kind_missing")
    event_id = await office.tell(standing())
    assert office.owner.email in {row["to_address"] for row in await office.emails(event_id)}, "though he is here"


async def test_an_address_nobody_vouches_for_gets_no_mail_and_the_row_says_why(office: PostOffice, superuser: Any):
    await superuser.execute("UPDATE users SET email_verified = false WHERE id = $1", office.billing.id)
    event_id = await office.tell(standing())
    rows = {row["to_address"]: (row["state"], row["last_error"]) for row in await office.emails(event_id)}
    assert rows[office.owner.email] == ("queued", "")
    assert rows[office.billing.email] == ("failed", "his identity provider has not verified his address")


async def test_what_happened_long_ago_is_told_but_not_mailed(office: PostOffice, superuser: Any):
    event_id = await office.tell(standing(), times=0)
    await superuser.execute("UPDATE outbox SET created_at = now() - interval '2 days' WHERE id = $1", event_id)
    await office.heard(event_id)
    assert len(await office.inbox(office.owner)) == 1
    assert await office.emails(event_id) == []


async def test_what_is_older_than_the_policy_says_is_forgotten(office: PostOffice, superuser: Any):
    await office.tell(adjusted())
    parts = office.parts()
    await notifications_prune(parts)
    assert len(await office.inbox(office.owner)) == 1
    old = await superuser.fetchval("SELECT floor_id(now() - interval '91 days')")
    await superuser.execute("UPDATE notifications SET id = $2 WHERE user_id = $1", office.owner.id, old)
    await notifications_prune(parts)
    assert await office.inbox(office.owner) == []
