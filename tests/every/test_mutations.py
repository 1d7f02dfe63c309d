"""Every change: replayed, replayed as something else, raced, cut off after its commit, audited once, secret or not; and
when it is refused, nothing is left of it."""

import asyncio
from typing import Any

import httpx
import msgspec
import pytest

from gpuaas.contracts.permissions import Permission
from gpuaas.domains.identity.authority.service import CACHE_SECONDS
from gpuaas.infra.http.context import Scope
from gpuaas.infra.http.operation import REGISTRY, Operation
from gpuaas.kit.ids import new_id
from tests.every.asking import MUTATIONS, Ask, Asking, assert_refused, assert_shape, best_actor
from tests.every.ledger import audit_of, changed, contents, events_of, tables_with
from tests.every.variants import broken, other_body, other_path, other_query

# The effect takes away the very credential the retry comes with: it hears that, and knows that the goal is reached.
ENDS_ITS_CREDENTIAL = {"session_end": "credential_revoked"}
RACERS = 20

every_mutation = pytest.mark.parametrize("op", MUTATIONS, ids=lambda op: op.id)
with_secret = pytest.mark.parametrize("op", [op for op in MUTATIONS if op.one_time_fields], ids=lambda op: op.id)


def correlation() -> str:
    return f"every-{new_id().hex}"


async def done(asking: Asking, ask: Ask, key: str, correlation_id: str = "") -> httpx.Response:
    answer = await asking.send(ask, key, **({"X-Correlation-Id": correlation_id} if correlation_id else {}))
    assert answer.status_code == ask.op.status, answer.text
    return answer


def assert_replay(op: Operation, first: httpx.Response, again: httpx.Response) -> None:
    """The same bytes; but a secret is gone and the answer says so."""
    if op.id in ENDS_ITS_CREDENTIAL and again.status_code == 401:
        assert_refused(again, 401, ENDS_ITS_CREDENTIAL[op.id])
        return
    assert again.status_code == first.status_code, again.text
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    if not op.one_time_fields:
        assert again.content == first.content
        return
    said: dict[str, Any] = first.json()
    assert said["already_shown"] is False
    assert said[op.one_time_fields[0]]
    assert again.json() == said | dict.fromkeys(op.one_time_fields) | {"already_shown": True}


@every_mutation
async def test_a_replay_has_the_first_answer_and_no_effect(asking: Asking, op: Operation):
    ask, key = await asking.ask(op, best_actor(op)), new_id().hex
    first = await done(asking, ask, key)
    after_first = await contents(asking.sql)
    again = await asking.send(ask, key)
    third = await asking.send(ask, key)
    assert changed(after_first, await contents(asking.sql)) == []
    assert_replay(op, first, again)
    assert third.content == again.content or op.id in ENDS_ITS_CREDENTIAL


async def test_a_replay_much_later_has_the_first_answer_even_if_what_it_was_about_is_gone(asking: Asking):
    """Nothing is known of the actors any more but what the database says: the organisation deleted, the member left."""
    sent = []
    for op in MUTATIONS:
        ask, key = await asking.ask(op, best_actor(op)), new_id().hex
        sent.append((op, ask, key, await done(asking, ask, key)))
    await asyncio.sleep(CACHE_SECONDS + 0.1)
    before = await contents(asking.sql)
    for op, ask, key, first in sent:
        again = await asking.send(ask, key)
        assert (again.status_code == 401) == (op.id in ENDS_ITS_CREDENTIAL)
        assert_replay(op, first, again)
    assert changed(before, await contents(asking.sql)) == []


@every_mutation
async def test_a_key_stands_for_one_request(asking: Asking, op: Operation):
    """With another body, query, path or operation it is refused, and nothing happens."""
    ask, key = await asking.ask(op, best_actor(op)), new_id().hex
    await done(asking, ask, key)
    others = [other for other in (other_body(ask), other_query(ask), other_path(ask)) if other is not None]
    others.append(await asking.ask(_another(op), best_actor(op), ask.setting))
    before = await contents(asking.sql)
    for other in others:
        answer = await asking.send(other.but(credential=ask.example.credential), key)
        if op.id in ENDS_ITS_CREDENTIAL and answer.status_code == 401:
            assert_refused(answer, 401, ENDS_ITS_CREDENTIAL[op.id])
        else:
            assert_refused(answer, 422, "idempotency_key_reused")
    assert changed(before, await contents(asking.sql)) == []


@every_mutation
async def test_a_change_is_audited_once_and_its_events_name_it(asking: Asking, op: Operation):
    ask, correlation_id = await asking.ask(op, best_actor(op)), correlation()
    first = await done(asking, ask, new_id().hex, correlation_id)
    rows = [row for row in await audit_of(asking.sql, correlation_id) if row["operation"] == op.id]
    assert len(rows) == 1
    row = rows[0]
    assert (row["action"], row["actor_kind"], row["actor_id"]) == (op.audit, ask.caller.kind, ask.caller.id)
    assert row["org_id"] == _org_of(ask, first)
    assert row["client_ip"] == "127.0.0.1"
    if op.scope is Scope.PROJECT:
        assert row["project_id"] == ask.setting.project_id
    assert await asking.sql.fetchval("SELECT count(*) FROM audit_unsealed WHERE audit_id = $1", row["id"]) == 1
    for secret in _secrets_in(ask, first):
        assert secret not in row["details"]
        assert all(secret not in event["payload"] for event in await events_of(asking.sql, correlation_id))
    for event in await events_of(asking.sql, correlation_id):
        if event["org_id"] is not None and op.scope in (Scope.ORG, Scope.PROJECT):
            assert event["org_id"] == ask.setting.org_id


@with_secret
async def test_a_secret_is_nowhere_in_the_database(asking: Asking, op: Operation):
    ask, key = await asking.ask(op, best_actor(op)), new_id().hex
    first = await done(asking, ask, key)
    shown = [first.json()[name] for name in op.one_time_fields if first.json()[name]]
    assert shown
    for secret in shown:
        assert await tables_with(asking.sql, secret) == []


@every_mutation
async def test_twenty_at_once_with_one_key_have_one_effect(asking: Asking, op: Operation):
    ask, key, correlation_id = await asking.ask(op, best_actor(op)), new_id().hex, correlation()
    headers = {"X-Correlation-Id": correlation_id}
    answers = await asyncio.gather(*(asking.send(ask, key, **headers) for _ in range(RACERS)))
    good = [answer for answer in answers if answer.status_code == op.status]
    firsts = [answer for answer in good if "idempotency-replayed" not in answer.headers]
    assert len(firsts) == 1, sorted((a.status_code, a.text) for a in answers)
    replays = {answer.content for answer in good if answer is not firsts[0]}
    assert len(replays) <= 1
    if not op.one_time_fields:
        assert replays <= {firsts[0].content}
    for answer in answers:
        if answer not in good:
            assert_shape(answer)
            allowed = {"request_in_progress"} | {ENDS_ITS_CREDENTIAL.get(op.id, "request_in_progress")}
            assert answer.json()["error"]["code"] in allowed, answer.text
    rows = await audit_of(asking.sql, correlation_id)
    assert [row["operation"] for row in rows].count(op.id) == 1
    assert_replay(op, firsts[0], await asking.send(ask, key))


@every_mutation
async def test_a_refused_change_leaves_nothing(asking: Asking, op: Operation):
    ask = await asking.ask(op, best_actor(op))
    strangers = [await asking.ask(op, actor, ask.setting) for actor in _who_may_not(op)]
    absent = other_path(ask)
    before = await contents(asking.sql)
    for wrong, changes, key in broken(op, ask):
        request = ask.request(key) | changes
        answer = await asking.live.client.request(**request)
        assert 400 <= answer.status_code < 500, f"{wrong}: {answer.text}"
        assert_shape(answer)
    for stranger in strangers:
        answer = await asking.send(stranger)
        assert answer.status_code in {401, 403, 404}, answer.text
    if absent is not None and "user_id" not in absent.example.path:
        answer = await asking.send(absent)
        assert answer.status_code == 404, answer.text
        assert_shape(answer)
    assert changed(before, await contents(asking.sql)) == []


def _another(op: Operation) -> Operation:
    """A change the same actor may make."""
    known = ("login_start", "login_finish") if op.scope is Scope.PUBLIC else ("user_me_update", "org_create")
    return REGISTRY.get(known[1] if op.id == known[0] else known[0])


def _who_may_not(op: Operation) -> list[str]:
    if op.scope is Scope.PUBLIC:
        return []
    if op.scope is Scope.USER:
        return ["anonymous", "revoked", "any_account"]
    return ["anonymous", "revoked", "stranger", *([] if op.permission is Permission.ORGS_READ else ["viewer"])]


ENTERS = frozenset({"quota_set", "quota_unset", "allocation_priority_set", "allocation_force_release"})
"""Changes of the platform in one organisation, which reads of them in its own audit log."""


def _org_of(ask: Ask, first: httpx.Response) -> Any:
    """The organisation a change is audited in: that of its scope, or the one it creates or enters."""
    if ask.op.scope in (Scope.ORG, Scope.PROJECT) or ask.op.id in ENTERS:
        return ask.setting.org_id
    said = {"org_create": "id", "invitation_accept": "org_id"}.get(ask.op.id)
    return msgspec.convert(first.json()[said], type(ask.setting.org_id)) if said else None


def _secrets_in(ask: Ask, first: httpx.Response) -> list[str]:
    """What must not be in an audit row: what was shown once, and passwords, tokens and codes that were sent.
    (A login's state is spent by the very request that sends it.)"""
    sent = [
        value
        for name, value in (ask.example.body or {}).items()
        if isinstance(value, str) and any(word in name for word in ("password", "token", "code"))
    ]
    shown = [first.json()[name] for name in ask.op.one_time_fields if first.json()[name]]
    return [*sent, *shown]
