"""A hundred agents lose their control plane at once, and are all back by themselves, with nothing lost and no herd."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from gpuaas.contracts.tasks.catalogue import HealthCheck
from gpuaas.domains.nodes.tasks import service as tasks
from gpuaas.domains.pki import service as pki
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.support.control_plane import ControlPlane, control_plane
from tests.support.fleet import EVERYTHING
from tests.support.servers import DatabaseUrls

NODES = 100
AWAY_SECONDS = 6
LONGEST_SECONDS = 120
ATTEMPTS_EACH = 40
"""Far more than back-off makes in so few seconds, far fewer than trying again at once would."""


async def invited(db: Database, sku_id: UUID, folder: Path) -> list[UUID]:
    """Nodes that wait for their machines, and the file from which the fleet enrols."""
    nodes, lines = [new_id() for _ in range(NODES)], []
    async with db.transaction(EVERYTHING, "test") as tx:
        for number, node_id in enumerate(nodes):
            name = f"ret-{node_id.hex[-8:]}-{number:03}"
            await tx.run(
                "INSERT INTO nodes (id, name, region, sku_id, state) VALUES ($1, $2, 'eu-1', $3, 'enrolling')",
                node_id,
                name,
                sku_id,
            )
            await tasks.sequence_start(tx, node_id)
            token = await pki.bootstrap_token_create(tx, node_id, seconds=600)
            lines.append(json.dumps({"name": name, "token": token.token, "topology": "8xh200"}))
    folder.mkdir(mode=0o700)
    (folder / "enrolments.jsonl").write_text("\n".join(lines))
    (folder / "enrolments.jsonl").chmod(0o600)
    return nodes


class Watch:
    def __init__(self, db: Database, nodes: list[UUID]) -> None:
        self._db, self._nodes = db, nodes

    async def value(self, sql: str, *more: Any) -> Any:
        async with self._db.read(EVERYTHING) as tx:
            return await tx.value(sql, self._nodes, *more)

    async def online(self, since: Any) -> int:
        return int(
            await self.value(
                "SELECT count(*) FROM node_heartbeats WHERE node_id = ANY($1) AND liveness = 'online' AND seen_at > $2",
                since,
            )
        )

    async def unfinished(self) -> int:
        return int(await self.value("SELECT count(*) FROM tasks WHERE node_id = ANY($1) AND ended_at IS NULL"))

    async def until(self, ask: Any, what: str) -> None:
        give_up_at = clock.monotonic() + LONGEST_SECONDS
        while not await ask():
            assert clock.monotonic() < give_up_at, (
                f"{what} did not come: {await self.unfinished()} tasks are unfinished"
            )
            await asyncio.sleep(0.2)


@pytest.mark.slow
async def test_a_hundred_agents_return_when_the_api_was_killed_and_lose_nothing(
    database: DatabaseUrls, nats_url: str, db: Database, tmp_path: Path
) -> None:
    (tmp_path / "plane").mkdir()
    async with control_plane(database, nats_url, tmp_path / "plane") as plane:
        sku = await plane.sku()
        (row,) = await plane.asked("SELECT id FROM skus WHERE name = $1", sku)
        nodes = await invited(db, row["id"], tmp_path / "fleet")
        watch, begun = Watch(db, nodes), clock.now()
        argv = [sys.executable, "-m", "gpuaas", "agent", "fleet", "--url", plane.api.url]
        argv += ["--state-dir", str(tmp_path / "fleet")]
        with (tmp_path / "fleet.log").open("wb") as log:
            fleet = subprocess.Popen(argv, stdout=log, stderr=log, env=os.environ)
        try:
            await watch.until(lambda: _all_back(watch, begun), "the fleet")
            await _lose_and_return(plane, db, watch, nodes, tmp_path / "fleet.log")
        finally:
            fleet.terminate()
            fleet.wait(30)


async def _all_back(watch: Watch, since: Any) -> bool:
    return await watch.online(since) == NODES and await watch.unfinished() == 0


async def _lose_and_return(plane: ControlPlane, db: Database, watch: Watch, nodes: list[UUID], log: Path) -> None:
    said = len(log.read_text().splitlines())
    plane.api.kill()
    async with db.transaction(EVERYTHING, "test") as tx:
        for node_id in nodes:
            await tasks.task_create(tx, node_id, HealthCheck())
    await asyncio.sleep(AWAY_SECONDS)
    assert await watch.unfinished() == NODES
    attempts = len(log.read_text().splitlines()) - said
    assert NODES < attempts < ATTEMPTS_EACH * NODES, "they try, and not all the time"
    returned = clock.now()
    plane.api.start()
    await watch.until(lambda: _all_back(watch, returned), "the return")
    outcomes = await watch.value("SELECT array_agg(DISTINCT state) FROM tasks WHERE node_id = ANY($1)")
    assert outcomes == ["done"]
    gaps = "SELECT count(*) FROM task_sequences WHERE node_id = ANY($1) AND last_issued <> accepted"
    assert await watch.value(gaps) == 0, "each has heard and done all that was numbered for it"
    assert not await watch.value(
        "SELECT count(*) FROM nodes WHERE id = ANY($1) AND (state <> 'active' OR quarantine_reason IS NOT NULL)"
    )
    first = "SELECT count(DISTINCT delivered_at) FROM tasks WHERE node_id = ANY($1) AND delivered_at > $2"
    assert await watch.value(first, returned) >= 5, "they came one after the other, not all in one moment"
