"""Every change, with the api or its connections taken away at the worst moment: after the commit and before the reply,
or just before the commit. Repeated with its key, it has happened once."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg
import httpx
import pytest

from gpuaas.domains.identity.authority.service import CACHE_SECONDS
from gpuaas.infra.http.operation import Operation
from gpuaas.kit.ids import new_id
from tests.every.asking import MUTATIONS, Ask, Asking, assert_refused
from tests.every.asking import best_actor as who
from tests.every.ledger import audit_of
from tests.support.commit_proxy import CommitProxy
from tests.support.live import ApiProcess, LiveApi, make_settings, mint_for, open_rates, serving
from tests.support.paying import paying
from tests.support.servers import DatabaseUrls

pytestmark = pytest.mark.xdist_group("crashes")
COMMIT_SECONDS = 30
PARTS = 4  # as many at once as a small machine answers in time
MASTER_KEY = base64.b64encode(os.urandom(32)).decode()  # of both, for they share a database
ENDS_ITS_CREDENTIAL = {"session_end"}
# What is spent at the issuer before the transaction stays spent when that never commits. The repeat says so, and there
# is no effect: log in again, or wait.
SPENT_BEFORE = {
    "login_finish": {(422, "login_state_unknown")},
    "issuer_keys_refresh": {(429, "rate_limited")},
    "session_refresh": {(401, "refresh_refused"), (409, "request_in_progress")},
}


@dataclass(frozen=True)
class Attempt:
    ask: Ask
    key: str
    correlation_id: str
    reached: asyncio.Event
    """The transaction is where the proxy keeps it."""

    @property
    def op(self) -> Operation:
        return self.ask.op

    def request(self) -> dict[str, object]:
        return self.ask.request(self.key, **{"X-Correlation-Id": self.correlation_id})


async def attempts(asking: Asking, proxy: CommitProxy, ops: list[Operation]) -> list[Attempt]:
    found = []
    for op in ops:
        correlation_id = f"crash-{new_id().hex}"
        ask = await asking.ask(op, who(op))
        # Its audit row names both; what it asks of the issuer on the way has another operation.
        found.append(Attempt(ask, new_id().hex, correlation_id, proxy.hold(correlation_id, op.id)))
    return found


async def send_all(client: httpx.AsyncClient, made: list[Attempt]) -> list["asyncio.Task[httpx.Response]"]:
    """All at once, until every one of them has come to its commit."""
    tasks = [asyncio.create_task(client.request(**attempt.request())) for attempt in made]  # type: ignore[arg-type] # as httpx takes it
    await asyncio.wait([asyncio.create_task(attempt.reached.wait()) for attempt in made], timeout=COMMIT_SECONDS)
    late = [
        (a.op.id, t.result().text if t.done() else "")
        for a, t in zip(made, tasks, strict=True)
        if not a.reached.is_set()
    ]
    assert late == []
    assert not any(task.done() for task in tasks), "somebody was told"
    return tasks


async def assert_happened_once(asking: Asking, attempt: Attempt, again: httpx.Response, *, replayed: bool) -> None:
    rows = [row for row in await audit_of(asking.sql, attempt.correlation_id) if row["operation"] == attempt.op.id]
    assert len(rows) == 1, f"{attempt.op.id}: {len(rows)} audit rows; {again.text}"
    if attempt.op.id in ENDS_ITS_CREDENTIAL and replayed:
        assert_refused(again, 401, "credential_revoked")
        return
    assert again.status_code == attempt.op.status, f"{attempt.op.id}: {again.text}"
    assert (again.headers.get("idempotency-replayed") == "true") == replayed, attempt.op.id
    if attempt.op.one_time_fields and replayed:
        assert again.json()["already_shown"] is True
        assert all(again.json()[name] is None for name in attempt.op.one_time_fields)


@pytest.fixture(scope="module")
async def proxy(database: DatabaseUrls) -> AsyncIterator[CommitProxy]:
    await open_rates(database.superuser)
    async with CommitProxy(database.app) as running:
        yield running


@pytest.fixture(scope="module")
async def sql(database: DatabaseUrls) -> AsyncIterator[object]:
    connection = await asyncpg.connect(database.superuser)
    yield connection
    await connection.close()


@pytest.fixture(scope="module")
async def killable(
    proxy: CommitProxy, database: DatabaseUrls, nats_url: str, sql: object, api_processes
) -> AsyncIterator[tuple[ApiProcess, Asking]]:
    """The real process, with a connection for each change; it speaks to PostgreSQL through the proxy."""
    settings = make_settings(
        proxy.url, nats_url, write_pool_size=len(MUTATIONS) + 10, read_pool_size=10, master_key=MASTER_KEY, **paying()
    )
    process: ApiProcess = api_processes(settings)
    process.start()
    await process.ready()
    async with httpx.AsyncClient(base_url=settings.public_url, timeout=60, limits=httpx.Limits()) as client:
        yield (
            process,
            Asking(LiveApi(settings.public_url, settings, client, await mint_for(settings, database.app)), sql),
        )


@pytest.fixture(scope="module")
async def cuttable(proxy: CommitProxy, database: DatabaseUrls, nats_url: str, sql: object) -> AsyncIterator[Asking]:
    """In this process, through the same proxy."""
    settings = make_settings(
        proxy.url, nats_url, write_pool_size=len(MUTATIONS) + 10, master_key=MASTER_KEY, **paying()
    )
    mint = await mint_for(settings, database.app)
    async with serving(settings) as client:
        yield Asking(LiveApi(settings.public_url, settings, client, mint), sql)


async def crash(process: ApiProcess, proxy: CommitProxy, tasks: list["asyncio.Task[httpx.Response]"]) -> None:
    process.kill()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, httpx.TransportError) for end in ended), "somebody was told"
    proxy.release()
    proxy.cut_all()
    process.start()
    await process.ready()


@pytest.mark.parametrize("part", range(PARTS))
async def test_every_change_killed_after_its_commit_and_before_the_reply_has_happened_once(killable, proxy, part: int):
    process, asking = killable
    made = await attempts(asking, proxy, MUTATIONS[part::PARTS])
    await crash(process, proxy, await send_all(asking.live.client, made))
    for attempt in made:
        again = await asking.live.client.request(**attempt.request())
        await assert_happened_once(asking, attempt, again, replayed=True)


@pytest.mark.parametrize("part", range(PARTS))
async def test_every_change_killed_before_its_commit_has_not_happened_and_happens_when_repeated(
    killable, proxy, part: int
):
    """Those that stand in each other's way (a lock on what they share) are left out: they were not there yet."""
    process, asking = killable
    alone = [op for op in MUTATIONS if op.id not in _TAKE_TURNS][part::PARTS]
    made = await attempts(asking, proxy, alone)
    proxy.before_commit = True
    try:
        await crash(process, proxy, await send_all(asking.live.client, made))
    finally:
        proxy.before_commit = False
    for attempt in made:
        assert [r for r in await audit_of(asking.sql, attempt.correlation_id) if r["operation"] == attempt.op.id] == []
        again = await asking.live.client.request(**attempt.request())
        if attempt.op.id in SPENT_BEFORE and again.status_code != attempt.op.status:
            assert (again.status_code, again.json()["error"]["code"]) in SPENT_BEFORE[attempt.op.id]
        else:
            await assert_happened_once(asking, attempt, again, replayed=False)


# Policies take turns on one number, and what needs the nodes' authority on that authority.
_TAKE_TURNS = {
    "ca_rotate",
    "data_key_rotate",
    "policy_unset",
    "policy_org_set",
    "policy_org_unset",
    "policy_project_set",
    "policy_project_unset",
}


@pytest.mark.parametrize("op", MUTATIONS, ids=lambda op: op.id)
async def test_a_connection_lost_at_the_commit_is_said_and_the_repeat_has_the_answer(cuttable: Asking, proxy, op):
    made = await attempts(cuttable, proxy, [op])
    tasks = await send_all(cuttable.live.client, made)
    proxy.cut_held()
    assert_refused(await tasks[0], 503, "dependency_unavailable")
    await asyncio.sleep(0)
    again = await cuttable.live.client.request(**made[0].request())  # type: ignore[arg-type] # as httpx takes it
    if op.id in ENDS_ITS_CREDENTIAL and again.status_code == op.status:
        return  # known for a second still
    await assert_happened_once(cuttable, made[0], again, replayed=True)


async def test_every_change_whose_client_left_before_the_reply_has_happened_once(cuttable: Asking, proxy):
    made = await attempts(cuttable, proxy, MUTATIONS)
    tasks = await send_all(cuttable.live.client, made)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    proxy.release()
    await asyncio.sleep(CACHE_SECONDS + 0.1)
    for attempt in made:
        again = await cuttable.live.client.request(**attempt.request())  # type: ignore[arg-type] # as httpx takes it
        await assert_happened_once(cuttable, attempt, again, replayed=True)
