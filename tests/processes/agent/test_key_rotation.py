"""The key that signs tasks is replaced while a real agent works: by its chain, without losing a task, for good."""

import asyncio
import base64
import os
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from gpuaas.contracts.tasks.catalogue import HealthCheck
from gpuaas.domains.nodes.tasks import service as tasks
from gpuaas.domains.nodes.tasks import store
from gpuaas.domains.nodes.tasks.signing import TaskSigner
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import clock
from tests.processes.agent.conftest import AgentProcess
from tests.support.agent_plane import until
from tests.support.control_plane import ControlPlane, control_plane
from tests.support.fleet import EVERYTHING
from tests.support.programs import ProgramProcess
from tests.support.servers import DatabaseUrls

BEFORE, AFTER = 15, 15
KEY, PREVIOUS = "GPUAAS_TASK_SIGNING_KEY", "GPUAAS_TASK_SIGNING_KEY_PREVIOUS"


@pytest.fixture
async def plane(
    database: DatabaseUrls, nats_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    async with control_plane(database, nats_url, tmp_path_factory.mktemp("plane")) as running:
        yield running


class Orders:
    """Tasks for one node, one after the other, until there are enough."""

    def __init__(self, db: Database, node_id: UUID) -> None:
        self._db, self._node_id = db, node_id
        self.made: list[UUID] = []

    async def one(self) -> UUID:
        async with self._db.transaction(EVERYTHING, "test") as tx:
            self.made.append((await tasks.task_create(tx, self._node_id, HealthCheck())).id)
        return self.made[-1]

    async def on_and_on(self) -> None:
        while True:
            await self.one()
            await asyncio.sleep(0.1)

    async def forged(self, signer: TaskSigner) -> UUID:
        """One that is signed with a key of before by somebody who can write to the books."""
        async with self._db.transaction(EVERYTHING, "test") as tx:
            task = await tasks.task_create(tx, self._node_id, HealthCheck())
            last = await tx.value("SELECT last_issued FROM task_sequences WHERE node_id = $1 FOR UPDATE", self._node_id)
            signed = signer.sign(task, sequence=last + 1, now=clock.now())
            await store.signed(tx, signer.key_id, [signed], {self._node_id: last + 1})
        return task.id

    async def states(self) -> dict[UUID, tuple[str, str]]:
        async with self._db.read(EVERYTHING) as tx:
            rows = await tx.rows("SELECT id, state, key_id FROM tasks WHERE id = ANY($1)", self.made)
        return {row["id"]: (row["state"], row["key_id"]) for row in rows}

    async def done(self, key_id: str) -> int:
        return list((await self.states()).values()).count(("done", key_id))

    async def ended(self, task_id: UUID) -> Any:
        async with self._db.read(EVERYTHING) as tx:
            row = await tx.row("SELECT state, code FROM tasks WHERE id = $1 AND ended_at IS NOT NULL", task_id)
        return row and tuple(row)


async def until_true(ask: Any, seconds: float, what: str) -> Any:
    give_up_at = clock.monotonic() + seconds
    while not (found := await ask()):
        assert clock.monotonic() < give_up_at, f"waited too long for {what}"
        await asyncio.sleep(0.1)
    return found


@pytest.mark.slow
async def test_a_key_is_replaced_under_load_without_losing_a_task_and_the_old_one_is_worth_nothing(
    plane: ControlPlane, database: DatabaseUrls, nats_url: str, db: Database, tmp_path: Path
) -> None:
    agent = AgentProcess(tmp_path / "state", driver="simulated:8xh200")
    name, line = await plane.invited(await plane.sku())
    enrolled = await plane.operator.run(*shlex.split(line)[1:], "--state-dir", str(agent.state))
    assert enrolled.code == 0, enrolled.said
    await agent.start()
    orders = Orders(db, UUID((await plane.node(name))["id"]))
    old_text, new_text = plane.worker.settings[KEY], base64.b64encode(os.urandom(32)).decode()
    old, new = TaskSigner.from_text(old_text), TaskSigner.from_text(new_text)
    asking = asyncio.create_task(orders.on_and_on())
    try:
        await until_true(lambda: _at_least(orders, old, BEFORE), 60, "tasks under the old key")
        plane.worker.kill()
        plane.worker.settings |= {KEY: new_text, PREVIOUS: old_text}
        plane.worker.start()
        await until_true(lambda: _at_least(orders, new, AFTER), 60, "tasks under the new key")
        asking.cancel()
        await until_true(lambda: _all_done(orders), 60, "every task to be done")
        assert {key_id for _, key_id in (await orders.states()).values()} == {old.key_id, new.key_id}

        await plane.asked("UPDATE task_keys SET valid_until = now() WHERE key_id = $1", old.key_id)
        await until(lambda: _trusted(agent) == {new.key_id}, 60, "the agent to forget the old key")
        forged = await orders.forged(old)
        assert await until_true(lambda: orders.ended(forged), 30, "a word on the forged task") == (
            "refused",
            "bad_signature",
        )
        honest = await orders.one()
        assert await until_true(lambda: orders.ended(honest), 30, "the next task") == ("done", "")
        await _worker_with_the_old_key_signs_nothing(orders, database, nats_url, db, old_text, tmp_path)
    finally:
        asking.cancel()
        agent.kill()


async def _at_least(orders: Orders, signer: TaskSigner, count: int) -> bool:
    return await orders.done(signer.key_id) >= count


async def _all_done(orders: Orders) -> bool:
    return {state for state, _ in (await orders.states()).values()} == {"done"}


def _trusted(agent: AgentProcess) -> set[str]:
    kept = msgspec.json.decode((agent.state / "trust.json").read_bytes())
    return {key["key_id"] for key in kept["task_keys"]}


async def _worker_with_the_old_key_signs_nothing(
    orders: Orders, database: DatabaseUrls, nats_url: str, db: Database, old_text: str, folder: Path
) -> None:
    stale = ProgramProcess("worker", database.app, nats_url, folder / "stale.log")
    stale.settings[KEY] = old_text
    stale.start()
    try:
        await until(lambda: "tasks are not signed" in stale.log, 30, "the stale worker to say so")
        async with db.transaction(EVERYTHING, "test") as tx:
            task = await tasks.task_create(tx, orders._node_id, HealthCheck())
            assert await tasks.tasks_sign(tx, TaskSigner.from_text(old_text)) == []
        assert await until_true(lambda: orders.ended(task.id), 30, "the good worker's signature") == ("done", "")
    finally:
        stale.kill()
