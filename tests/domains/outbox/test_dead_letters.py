"""Dead letters through the API and the timers: list, inspect, replay, discard, and what a deadline does."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from prometheus_client import REGISTRY as METRICS

import gpuaas.domains.outbox.routes  # noqa: F401 - declares the operations asked here
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.base import Envelope
from gpuaas.contracts.events.platform import OrgCreated
from gpuaas.contracts.permissions import PlatformRole
from gpuaas.domains.outbox import handlers, service
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.events import HandlerRegistry, reaction
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import new_id
from gpuaas.kit.parts import Parts
from tests.support.written_people import Caller, WrittenPeople, api_for

OPEN = """
INSERT INTO dead_letters (id, consumer, event_id, event_name, correlation_id, reason, attempts, state)
VALUES ($1, $2, $3, 'org.created', 'c-1', 'RuntimeError: no', 8, 'open')
"""


@pytest.fixture(scope="module")
async def call(db: Database) -> AsyncIterator[Caller]:
    people = WrittenPeople()
    people.add("root", platform=[PlatformRole.ADMIN])
    people.add("auditor", platform=[PlatformRole.AUDITOR])
    async with api_for(db, people, MemoryPolicy()) as caller:
        yield caller


async def letter_of(db: Database, superuser: Any, consumer: str, name: str = "acme") -> tuple[UUID, UUID]:
    async with db.transaction(Sight(PLATFORM), "system:test") as tx:
        event = tx.emit(OrgCreated(org_id=new_id(), name=name))
    letter = new_id()
    await superuser.execute(OPEN, letter, consumer, event)
    return letter, event


async def test_letters_are_listed_filtered_and_paged(db: Database, superuser: Any, call: Caller) -> None:
    made = [str((await letter_of(db, superuser, "test.listed"))[0]) for _ in range(5)]
    await letter_of(db, superuser, "test.other")
    first = (await call("auditor", "GET", "/dead-letters", consumer="test.listed", limit=3)).json()
    rest = (
        await call("auditor", "GET", "/dead-letters", consumer="test.listed", limit=3, cursor=first["next_cursor"])
    ).json()
    assert [item["id"] for item in first["items"] + rest["items"]] == made
    assert rest["next_cursor"] is None
    none = await call("auditor", "GET", "/dead-letters", consumer="test.listed", state="discarded")
    assert none.json()["items"] == []
    for wrong in ({"state": "lost"}, {"consumer": "x'; DROP"}):
        refused = await call("auditor", "GET", "/dead-letters", **wrong)
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "request_invalid")


async def test_a_letter_shows_its_event_without_secrets(db: Database, superuser: Any, call: Caller) -> None:
    letter, event = await letter_of(db, superuser, "test.shown", name="Bearer abcdefghijklmnop")
    found = (await call("auditor", "GET", f"/dead-letters/{letter}")).json()
    assert (found["event_id"], found["reason"], found["attempts"]) == (str(event), "RuntimeError: no", 8)
    assert found["event"]["payload"]["name"] == "[scrubbed]"
    assert found["event"]["stream"] == "PLATFORM"
    missing = await call("auditor", "GET", f"/dead-letters/{new_id()}")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "dead_letter_missing")


async def test_only_who_manages_the_platform_moves_a_letter(db: Database, superuser: Any, call: Caller) -> None:
    letter, _ = await letter_of(db, superuser, "test.guarded")
    for path, body in (("replay", None), ("discard", {"reason": "not needed"})):
        assert (await call("auditor", "POST", f"/dead-letters/{letter}/{path}", body)).status_code == 403
    assert (await call("root", "POST", f"/dead-letters/{letter}/discard", {"reason": "  "})).status_code in {400, 422}


async def test_a_discarded_letter_keeps_its_reason_and_its_event_is_never_handled(
    db: Database, superuser: Any, call: Caller
) -> None:
    registry = HandlerRegistry()
    letter, event = await letter_of(db, superuser, "test.discarded")
    answer = await call("root", "POST", f"/dead-letters/{letter}/discard", {"reason": "the org is gone"})
    assert (answer.json()["state"], answer.json()["note"]) == ("discarded", "the org is gone")
    again = await call("root", "POST", f"/dead-letters/{letter}/replay")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "state_move_refused")

    @reaction("test.discarded", to=OrgCreated, registry=registry)
    async def never(tx: Tx, event: OrgCreated, envelope: Envelope) -> None:
        raise AssertionError("handled behind the operator's back")

    found = registry.reaction("test.discarded")
    assert found is not None
    outcome = await service.event_handle(db, found, event, None, Parts())
    assert outcome is service.Outcome.NOT_OURS


async def test_a_replay_ends_as_handled_refused_or_overdue(db: Database, superuser: Any, call: Caller) -> None:
    registry = HandlerRegistry()

    @reaction("test.replayed", to=OrgCreated, registry=registry)
    async def picky(tx: Tx, event: OrgCreated, envelope: Envelope) -> None:
        if event.name != "fine":
            raise RuntimeError(f"{event.name} is not fine")

    parts = Parts(db, registry)
    fine, _ = await letter_of(db, superuser, "test.replayed", "fine")
    bad, _ = await letter_of(db, superuser, "test.replayed", "bad")
    orphan, _ = await letter_of(db, superuser, "test.no_such_consumer")
    for letter in (fine, bad, orphan):
        answer = await call("root", "POST", f"/dead-letters/{letter}/replay")
        assert (answer.status_code, answer.json()["state"]) == (202, "replaying")
    await handlers.dead_letters_replay(parts)
    states = {}
    for letter in (fine, bad, orphan):
        states[letter] = (await call("auditor", "GET", f"/dead-letters/{letter}")).json()
    assert states[fine]["state"] == "resolved"
    assert (states[bad]["state"], states[bad]["reason"], states[bad]["attempts"]) == (
        "open",
        "RuntimeError: bad is not fine",
        9,
    )
    assert states[orphan]["state"] == "open"
    assert "no consumer of this name" in states[orphan]["reason"]

    await call("root", "POST", f"/dead-letters/{bad}/replay")
    await superuser.execute(
        "UPDATE dead_letters SET state_since = now() - $2::interval WHERE id = $1", bad, timedelta(minutes=6)
    )
    await handlers.dead_letters_overdue(parts)
    assert (await call("auditor", "GET", f"/dead-letters/{bad}")).json()["state"] == "open"


async def test_a_replay_whose_reaction_finds_a_conflict_is_refused_once_with_that_reason(
    db: Database, superuser: Any, call: Caller
) -> None:
    registry, tries = HandlerRegistry(), []

    @reaction("test.conflicting", to=OrgCreated, registry=registry)
    async def conflicting(tx: Tx, event: OrgCreated, envelope: Envelope) -> None:
        tries.append(envelope.id)
        raise Conflict(Code.STATE_MOVE_REFUSED, "It has moved on.")

    letter, event = await letter_of(db, superuser, "test.conflicting")
    await call("root", "POST", f"/dead-letters/{letter}/replay")
    for _ in range(3):
        await handlers.dead_letters_replay(Parts(db, registry))
    found = (await call("auditor", "GET", f"/dead-letters/{letter}")).json()
    assert (found["state"], found["reason"], tries) == ("open", "Conflict: It has moved on.", [event])


async def test_the_depth_of_the_queue_is_a_metric(db: Database, superuser: Any) -> None:
    await superuser.execute("UPDATE dead_letters SET state = 'resolved'")
    await letter_of(db, superuser, "test.depth")
    await handlers.dead_letters_count(Parts(db))
    assert METRICS.get_sample_value("gpuaas_dead_letters", {"state": "open"}) == 1
    assert METRICS.get_sample_value("gpuaas_dead_letters", {"state": "replaying"}) == 0
