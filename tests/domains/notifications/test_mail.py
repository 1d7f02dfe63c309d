"""Mail reaches a real SMTP server: whole, at least once, recognisable; and whatever the server does, nothing is lost
silently."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from gpuaas.contracts.events.base import Event
from gpuaas.domains.notifications.mail import service, store
from gpuaas.infra.embedded.ports import free_port
from gpuaas.kit.ids import new_id
from tests.domains.notifications.test_notifications import adjusted, standing
from tests.support.events import eventually
from tests.support.people import found, refusal
from tests.support.post_office import EVERYTHING, SENDER, PostOffice


async def one(office: PostOffice, event: Event | None = None) -> tuple[UUID, Any]:
    """An event that is mailed to the owner alone, and his email's row."""
    event_id = await office.tell(event or standing())
    async with office.db.transaction(EVERYTHING, "test") as tx:
        await tx.run("DELETE FROM emails WHERE to_address <> $1", office.owner.email)
    return event_id, (await office.emails(event_id))[0]


async def now_due(office: PostOffice) -> None:
    """Time passes: whatever waits may be tried, whoever held a claim has lost it."""
    async with office.db.transaction(EVERYTHING, "test") as tx:
        await tx.run("UPDATE emails SET next_at = now(), lease_until = NULL WHERE state = 'queued'")


async def state(office: PostOffice, event_id: UUID) -> tuple[str, int, str]:
    row = (await office.emails(event_id))[0]
    return row["state"], row["attempts"], row["last_error"]


async def _taken(office: PostOffice) -> bool:
    return bool(office.box.taken)


async def test_an_email_arrives_in_text_and_html_and_is_sent_once(office: PostOffice):
    event_id, row = await one(office)
    for _ in range(3):
        await office.send()
    assert await state(office, event_id) == ("sent", 1, "")
    [message] = office.box.to(office.owner.email)
    assert message["From"] == f"GPUaaS <{SENDER}>"
    assert message["Message-ID"] == f"<{row['id']}@mail.example>"
    assert "used up" in message["Subject"]
    assert message["List-Unsubscribe"] is None, "it is mandatory"
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]


async def test_while_the_server_is_away_mail_waits_and_then_goes(office: PostOffice):
    event_id, _ = await one(office)
    await office.send(f"smtp://127.0.0.1:{free_port()}")
    told, attempts, reason = await state(office, event_id)
    assert (told, attempts) == ("queued", 1)
    assert "Connect" in reason
    await office.send()
    assert office.box.taken == [], "it is not tried before its time"
    await now_due(office)
    await office.send()
    assert await state(office, event_id) == ("sent", 2, "")


@pytest.mark.parametrize("command", ["RCPT", "DATA", "MAIL"])
async def test_a_server_that_says_later_is_asked_later(office: PostOffice, command: str):
    event_id, _ = await one(office)
    office.box.answers[command] = "451 come back later"
    await office.send()
    assert await state(office, event_id) == ("queued", 1, "451 come back later")
    office.box.answers.clear()
    await now_due(office)
    await office.send()
    assert await state(office, event_id) == ("sent", 2, "")


@pytest.mark.parametrize("command", ["RCPT", "DATA"])
async def test_a_message_that_is_refused_for_good_fails_and_an_operator_can_retry_it(office: PostOffice, command: str):
    event_id, row = await one(office)
    office.box.answers[command] = "550 no such user"
    await office.send()
    assert await state(office, event_id) == ("failed", 1, "550 no such user")
    await office.send()
    assert office.box.taken == []

    admin = await office.city.admin()
    listed = await office.city.get(admin, "/ops/emails", state="failed", limit=200)
    [shown] = [one for one in listed["items"] if one["id"] == str(row["id"])]
    assert (shown["to_address"], shown["last_error"]) == (office.owner.email, "550 no such user")
    assert "content" not in shown
    office.box.answers.clear()
    found(await office.city.ask(admin, "POST", f"/ops/emails/{row['id']}/retry"), 200)
    await office.send()
    assert (await state(office, event_id))[0] == "sent"
    assert office.box.read()["Message-ID"] == f"<{row['id']}@mail.example>"
    again = await office.city.ask(admin, "POST", f"/ops/emails/{row['id']}/retry")
    assert refusal(again) == (409, "state_move_refused")
    absent = await office.city.ask(admin, "POST", f"/ops/emails/{new_id()}/retry")
    assert refusal(absent) == (404, "email_missing")


async def test_a_server_that_refuses_us_loses_nobodys_mail(office: PostOffice):
    """A wrong login or sender is for the operator to mend: no message is at fault."""
    event_id, _ = await one(office)
    office.box.answers["MAIL"] = "550 sender unknown"
    await office.send()
    assert await state(office, event_id) == ("queued", 1, "550 sender unknown")


async def test_a_connection_cut_after_the_message_was_taken_has_it_sent_again_and_recognisable(office: PostOffice):
    event_id, _ = await one(office)
    office.box.cuts = 1
    await office.send()
    assert (await state(office, event_id))[:2] == ("queued", 1), "nobody knows whether it was taken"
    await now_due(office)
    await office.send()
    assert (await state(office, event_id))[0] == "sent"
    first, second = office.box.taken
    assert first == second, "byte for byte, with its Message-ID"


async def test_a_cut_connection_costs_the_others_nothing(office: PostOffice):
    events = [await office.tell(standing()) for _ in range(10)]
    office.box.cuts = 1
    await office.send()
    states = [row["state"] for event_id in events for row in await office.emails(event_id)]
    assert sorted(states) == ["queued"] + ["sent"] * 19


async def test_a_slow_server_holds_no_transaction_and_is_not_asked_twice(office: PostOffice, superuser: Any):
    event_id, _ = await one(office)
    seen: list[Any] = []

    async def meanwhile(to: str) -> None:
        seen.append(
            await superuser.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
                "AND state LIKE 'idle in transaction%'"
            )
        )
        await office.send()  # another worker's turn comes while this one still waits

    office.box.meanwhile = meanwhile
    await office.send()
    assert seen == [0]
    assert await state(office, event_id) == ("sent", 1, "")
    assert len(office.box.taken) == 1


async def test_a_server_that_never_answers_is_given_up_in_time(office: PostOffice):
    event_id, _ = await one(office)
    hanging = asyncio.Event()

    async def meanwhile(to: str) -> None:
        await hanging.wait()

    office.box.meanwhile = meanwhile
    await office.send(command_seconds=0.3)
    told, attempts, reason = await state(office, event_id)
    hanging.set()
    assert (told, attempts) == ("queued", 1)
    assert "Timeout" in reason


async def test_who_dies_between_sending_and_marking_has_it_sent_again_when_his_claim_is_over(office: PostOffice):
    event_id, _ = await one(office)
    running = asyncio.create_task(office.send())

    async def meanwhile(to: str) -> None:
        running.cancel()  # the message is with the server; nothing after this happens here

    office.box.meanwhile = meanwhile
    with pytest.raises(asyncio.CancelledError):
        await running
    office.box.meanwhile = None
    await eventually(lambda: _taken(office))
    assert (await state(office, event_id))[:2] == ("queued", 1)
    await office.send()
    assert len(office.box.taken) == 1, "his claim is not over"
    await now_due(office)
    await office.send()
    assert (await state(office, event_id))[:2] == ("sent", 2)
    first, second = office.box.taken
    assert first == second


async def test_a_sender_that_was_thought_dead_changes_nothing(office: PostOffice):
    event_id, _ = await one(office)
    async with office.db.transaction(EVERYTHING, "test") as tx:
        [mine] = await store.claim(tx, limit=1, lease=service.LEASE)
    await now_due(office)
    async with office.db.transaction(EVERYTHING, "test") as tx:
        [theirs] = await store.claim(tx, limit=1, lease=service.LEASE)
    async with office.db.transaction(EVERYTHING, "test") as tx:
        assert not await store.failed(tx, mine, "too late")
        assert await store.sent(tx, theirs)
        assert not await store.postpone(tx, mine, service.FIRST_WAIT, "too late")
    assert (await state(office, event_id))[0] == "sent"


async def test_without_a_server_rows_say_so_and_go_once_there_is_one(office: PostOffice):
    event_id, _ = await one(office)
    await office.send("")
    assert (await state(office, event_id))[0] == "not_configured"
    await office.send("")
    await office.send()
    assert await state(office, event_id) == ("sent", 1, "")


async def test_what_is_not_sent_in_two_days_fails_with_the_reason(office: PostOffice, superuser: Any):
    event_id, row = await one(office)
    await office.send(f"smtp://127.0.0.1:{free_port()}")
    await superuser.execute("UPDATE emails SET due_at = now() - interval '2 minutes' WHERE id = $1", row["id"])
    late = await superuser.fetch("SELECT subject FROM invariant_14_emails_end")
    assert [one["subject"] for one in late] == [str(row["id"])]
    await office.send()
    told, _, reason = await state(office, event_id)
    assert told == "failed"
    assert reason.startswith("not sent in time: ")
    assert office.box.taken == []
    assert await superuser.fetch("SELECT subject FROM invariant_14_emails_end") == []


async def test_a_thousand_people_are_told_in_one_go_and_mailed_over_few_connections(office: PostOffice, superuser: Any):
    await superuser.execute(
        "WITH made AS (INSERT INTO users (id, issuer, subject, email, email_verified, name) "
        "SELECT gen_random_uuid(), 'https://crowd', $2 || n, $2 || n || '@crowd.example', true, 'n' "
        "FROM generate_series(1, 1000) n RETURNING id) "
        "INSERT INTO org_members (org_id, user_id, role) SELECT $1, id, 'billing' FROM made",
        office.org_id,
        f"c{new_id().hex}-",
    )
    event_id = await office.tell(adjusted(), times=2)
    rows = await office.emails(event_id)
    assert len(rows) == 1002
    await office.send()
    assert {row["state"] for row in await office.emails(event_id)} == {"sent"}
    assert len({to for to, _ in office.box.taken}) == len(office.box.taken) == 1002
    assert office.box.most_talking <= service.LANES


async def test_mail_that_still_waits_does_not_reach_who_has_left_the_organisation(office: PostOffice):
    event_id = await office.tell(standing())
    await office.send(f"smtp://127.0.0.1:{free_port()}")
    found(await office.city.ask(office.owner, "DELETE", f"/orgs/{office.org_id}/members/{office.billing.id}"), 200)
    async with office.db.read(EVERYTHING) as tx:
        [row] = await tx.rows(
            "SELECT id FROM outbox WHERE name = 'member.removed' AND subject_id = $1", office.billing.id
        )
    await office.heard(row["id"], "notifications.left")
    await now_due(office)
    await office.send()
    states = {row["to_address"]: row["state"] for row in await office.emails(event_id)}
    assert states == {office.owner.email: "sent", office.billing.email: "failed"}
    assert office.box.to(office.billing.email) == []
