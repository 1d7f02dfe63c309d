"""One-click links: looking changes nothing, the button works once, and only for what and whom the link was made."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from gpuaas.contracts.events.allocations import AllocationDegraded, AllocationIdle
from gpuaas.domains.allocations.models import Allocation
from gpuaas.domains.notifications.links.tokens import LinkSigner
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from gpuaas.kit.secrets import LINK_PREFIX, MasterKey
from tests.domains.notifications.test_notifications import adjusted
from tests.support.ground import Ground, ground_of
from tests.support.mailbox import mailbox
from tests.support.people import found
from tests.support.post_office import URL, PostOffice

LINK = re.compile(r"https://gpu\.example/go/[A-Za-z0-9_-]+")


@pytest.fixture(scope="module")
async def ground(db: Database) -> AsyncIterator[Ground]:
    async with ground_of(db) as made:
        made.fleet.city.parts.add(LinkSigner(MasterKey(b"m" * 32), URL))
        yield made


@pytest.fixture
async def there(ground: Ground) -> AsyncIterator[PostOffice]:
    """The mail of those who have allocations."""
    async with mailbox() as box:
        member = await ground.fleet.city.person("member")
        yield PostOffice(ground.fleet.city, box, ground.owner, member, member, ground.org_id)


async def warned(there: PostOffice, allocation: Allocation) -> str:
    """An allocation is idle: the link in the email its owner got."""
    now = clock.now()
    event = AllocationIdle(
        allocation_id=allocation.id,
        project_id=allocation.project_id,
        idle_since=now - timedelta(hours=1),
        reclaim_at=now + timedelta(minutes=10),
    )
    await there.tell(event, subject_id=allocation.id)
    await there.send()
    text = there.box.to(there.owner.email)[-1].get_body(("plain",))
    assert text is not None
    return str(LINK.findall(text.get_content())[0])


async def lease(ground: Ground, allocation: Allocation) -> Any:
    return (await ground.read(allocation.id)).expires_at


@pytest.fixture
async def idle(ground: Ground, superuser: Any) -> AsyncIterator[Allocation]:
    made = await ground.active()
    await superuser.execute(
        "UPDATE allocations SET expires_at = now() + interval '5 minutes', ends_at = now() + interval '9 hours', "
        "reclaim_at = now() + interval '5 minutes', idle_since = now() - interval '1 hour' WHERE id = $1",
        made.id,
    )
    yield await ground.read(made.id)
    await ground.release(made.id)
    await ground.run()


async def test_a_link_says_what_it_will_do_and_its_button_does_it_once(
    there: PostOffice, ground: Ground, idle: Allocation, superuser: Any
):
    link = await warned(there, idle)
    await there.look(link)
    page = await there.look(link)
    assert page.status_code == 200
    assert f"Keep {idle.name}?" in page.text
    assert page.text.count("<button") == 1
    assert await lease(ground, idle) == idle.expires_at, "looking changes nothing"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<script" not in page.text
    assert page.headers["referrer-policy"] == "no-referrer"

    done = await there.press(link)
    assert (done.status_code, "is kept" in done.text) == (200, True)
    longer = await lease(ground, idle)
    assert longer > idle.expires_at
    assert (await ground.read(idle.id)).reclaim_at is None

    for again in (await there.press(link), await there.look(link)):
        assert (again.status_code, "used already" in again.text) == (410, True)
        assert "<button" not in again.text
    assert await lease(ground, idle) == longer
    [audited] = await superuser.fetch("SELECT * FROM audit_log WHERE action = 'link.use' AND subject_id = $1", idle.id)
    assert (audited["actor_kind"], audited["actor_id"]) == ("user", there.owner.id)
    assert audited["org_id"] == ground.org_id
    assert urlsplit(link).path.rpartition("/")[2] not in audited["details"]


async def test_a_link_that_many_press_at_once_works_once(there: PostOffice, idle: Allocation, superuser: Any):
    link = await warned(there, idle)
    answers = await asyncio.gather(*(there.press(link) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [200, 410, 410, 410, 410]
    told = await superuser.fetch(
        "SELECT FROM audit_log WHERE action = 'link.use' AND subject_id = $1 AND at > now() - interval '1 minute'",
        idle.id,
    )
    assert len(told) == 1


async def test_an_expired_link_does_nothing(there: PostOffice, ground: Ground, idle: Allocation, superuser: Any):
    link = await warned(there, idle)
    await superuser.execute("UPDATE action_links SET expires_at = now() - interval '1 second'")
    for answer in (await there.look(link), await there.press(link)):
        assert (answer.status_code, "has expired" in answer.text) == (410, True)
    assert await lease(ground, idle) == idle.expires_at


async def test_a_link_that_is_not_ours_does_nothing(there: PostOffice, idle: Allocation, superuser: Any):
    link = await warned(there, idle)
    token = urlsplit(link).path.rpartition("/")[2]
    link_id = await superuser.fetchval("SELECT id FROM action_links ORDER BY id DESC LIMIT 1")
    others = [
        LINK_PREFIX,
        "x",
        token[:-1],
        token[:-2] + ("A" if token[-2] != "A" else "B") + token[-1],
        token + "A",
        token.removeprefix(LINK_PREFIX),
        LinkSigner(MasterKey(b"o" * 32), URL).token(link_id),
        LinkSigner(MasterKey(b"m" * 32), URL).token(new_id()),
    ]
    for other in others:
        for answer in (await there.look(f"{URL}/go/{other}"), await there.press(f"{URL}/go/{other}")):
            assert (answer.status_code, "does not work" in answer.text) == (404, True), other


async def test_who_may_not_do_it_any_more_cannot_by_link(
    there: PostOffice, ground: Ground, idle: Allocation, superuser: Any
):
    link = await warned(there, idle)
    for what, undo in (
        ("UPDATE users SET state = 'disabled' WHERE id = $1", "UPDATE users SET state = 'active' WHERE id = $1"),
        (
            "UPDATE org_members SET role = 'viewer' WHERE user_id = $1",
            "UPDATE org_members SET role = 'owner' WHERE user_id = $1",
        ),
    ):
        await superuser.execute(what, there.owner.id)
        try:
            for answer in (await there.look(link), await there.press(link)):
                assert (answer.status_code, "not yours" in answer.text) == (403, True)
        finally:
            await superuser.execute(undo, there.owner.id)
    assert await lease(ground, idle) == idle.expires_at
    assert (await there.press(link)).status_code == 200, "nothing was used up"


async def test_what_has_ended_cannot_be_kept(there: PostOffice, ground: Ground, superuser: Any):
    made = await ground.active()
    link = await warned(there, made)
    await ground.release(made.id)
    for answer in (await there.look(link), await there.press(link)):
        assert answer.status_code == 410
        assert "There is nothing to keep" in answer.text
        assert "<button" not in answer.text
    await ground.run()


async def test_a_name_made_to_harm_is_shown_as_text(there: PostOffice, idle: Allocation, superuser: Any):
    await superuser.execute("UPDATE allocations SET name = $2 WHERE id = $1", idle.id, '<img src=x onerror="1">\u202e')
    page = await there.look(await warned(there, idle))
    assert "<img" not in page.text
    assert "&lt;img" in page.text
    assert "\u202e" not in page.text


async def test_email_of_a_kind_is_switched_off_by_its_own_link_as_mail_programs_do_it(office: PostOffice):
    await office.tell(adjusted())
    await office.send()
    message = office.box.to(office.owner.email)[-1]
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    link = message["List-Unsubscribe"].strip("<>")
    assert "No more email" in (await office.look(link)).text
    done = await office.press(link, **{"List-Unsubscribe": "One-Click"})
    assert done.status_code == 200
    listed = await office.city.get(office.owner, "/users/me/notification-preferences")
    wanted = {one["kind"]: one["email"] for one in listed["preferences"]}
    assert wanted["billing.adjusted"] == "never"
    event_id = await office.tell(adjusted())
    assert office.owner.email not in {row["to_address"] for row in await office.emails(event_id)}


async def test_the_link_is_in_what_its_user_reads_and_nowhere_in_the_database(
    there: PostOffice, idle: Allocation, superuser: Any
):
    link = await warned(there, idle)
    [told] = [one for one in await there.inbox(there.owner) if one["subject_id"] == str(idle.id)]
    assert told["link"] == link
    token = urlsplit(link).path.rpartition("/")[2]
    for table in ("notifications", "emails", "action_links", "audit_log", "outbox"):
        assert not await superuser.fetch(f"SELECT FROM {table} t WHERE position($1 IN t::text) > 0", token), table


async def test_whoever_asked_for_an_allocation_is_mailed_and_the_owner_reads_it(
    there: PostOffice, ground: Ground, idle: Allocation, superuser: Any
):
    city = ground.fleet.city
    await city.join(there.owner, str(ground.org_id), there.member, "member")
    await superuser.execute("UPDATE allocations SET requested_by_id = $2 WHERE id = $1", idle.id, there.member.id)
    now = clock.now()
    event_id: UUID = await there.tell(
        AllocationIdle(allocation_id=idle.id, project_id=idle.project_id, idle_since=now, reclaim_at=now),
        subject_id=idle.id,
    )
    assert [row["to_address"] for row in await there.emails(event_id)] == [there.member.email]
    for who in (there.owner, there.member):
        assert str(idle.id) in {one["subject_id"] for one in await there.inbox(who)}
    found(await city.ask(there.owner, "DELETE", f"/orgs/{ground.org_id}/members/{there.member.id}"), 200)


async def test_what_comes_and_goes_by_the_minute_is_mailed_once_an_hour_and_told_each_time(
    there: PostOffice, idle: Allocation, superuser: Any
):
    sick = AllocationDegraded(allocation_id=idle.id, project_id=idle.project_id, reason="node n7 is lost")
    told = [await there.tell(sick, subject_id=idle.id) for _ in range(3)]
    assert [bool(await there.emails(event_id)) for event_id in told] == [True, False, False]
    kinds = [one["kind"] for one in await there.inbox(there.owner) if one["subject_id"] == str(idle.id)]
    assert kinds.count("allocation.degraded") == 3
