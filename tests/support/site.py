"""A whole site as processes: api, relay, any number of workers, simulated machines with faults on tap, and a tenant who
asks through the API and does not give up: the same key until there is an answer."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from gpuaas.client.simulation import ask
from gpuaas.contracts.simulation import ControlAnswer, ControlRequest
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.support.control_plane import ControlPlane, control_plane
from tests.support.ground import BAREMETAL, SSH_KEY
from tests.support.programs import ProgramProcess
from tests.support.servers import DatabaseUrls

SECONDS = 60.0
ENDED = ("released", "failed", "release_failed")
INVARIANTS = "SELECT viewname FROM pg_views WHERE viewname LIKE 'invariant%' ORDER BY viewname"
SELLABLE = """
SELECT count(*) FROM slots s JOIN sellable_nodes v ON v.id = s.node_id
WHERE s.present AND NOT s.held AND s.sku_id = $1
  AND NOT EXISTS (SELECT FROM slot_quarantines q WHERE q.slot_id = s.id AND q.ended_at IS NULL)
"""


@dataclass
class Site:
    plane: ControlPlane
    folder: Path
    client: httpx.AsyncClient
    project: str = ""
    sku_id: str = ""
    workers: list[ProgramProcess] = field(default_factory=list)
    relay: ProgramProcess | None = None
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    # people ----------------------------------------------------------------------------------------------------------
    async def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """One answer, however often the database goes away meanwhile."""
        headers = {"Idempotency-Key": new_id().hex}
        until = clock.monotonic() + SECONDS
        while True:
            try:
                answer = await self.client.request(method, path, json=body, headers=headers)
                if answer.status_code != 503:
                    return answer
                said = answer.text
            except httpx.HTTPError as error:
                said = repr(error)
            assert clock.monotonic() < until, f"{method} {path} got no answer: {said}"
            await asyncio.sleep(0.1)

    async def made(self, path: str, body: Any) -> Any:
        answer = await self.ask("POST", path, body)
        assert answer.status_code in (201, 202), f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    async def settle(self, sku: dict[str, Any]) -> None:
        """A tenant, and what he can ask for."""
        org = await self.made("/orgs", {"name": f"acme-{new_id().hex[-12:]}"})
        await self.plane.fund(org["id"])
        project = await self.made(f"/orgs/{org['id']}/projects", {"name": "training"})
        self.project = f"/projects/{project['id']}/allocations"
        self.sku_id = (await self.made("/skus", {"name": f"sku-{new_id().hex[-12:]}", **sku}))["id"]

    async def allocate(self, **wanted: Any) -> str:
        body = {"sku_id": self.sku_id, "gpu_count": 1, "ssh_keys": [SSH_KEY], **wanted}
        return str((await self.made(self.project, body))["id"])

    async def release(self, allocation_id: str) -> None:
        await self.made(f"{self.project}/{allocation_id}/release", {})

    async def show(self, allocation_id: str) -> Any:
        answer = await self.ask("GET", f"{self.project}/{allocation_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def until(self, allocation_id: str, *states: str, seconds: float = SECONDS) -> Any:
        """What is shown of it once it is in one of the states."""
        until = clock.monotonic() + seconds
        while (shown := await self.show(allocation_id))["state"] not in states:
            assert clock.monotonic() < until, (
                f"it is {shown['state']} after {seconds} s: {await self.flow(allocation_id)}"
            )
            await asyncio.sleep(0.2)
        return shown

    # machines --------------------------------------------------------------------------------------------------------
    async def invite(self, topology: str = "8xh200") -> dict[str, str]:
        name = f"n-{new_id().hex[-12:]}"
        made = await self.made("/nodes", {"name": name, "region": "eu-1", "sku_id": self.sku_id})
        return {"name": name, "token": made["token"], "topology": topology, "command": made["command"]}

    async def fleet(self, count: int) -> None:
        """So many simulated machines in one process, whose GPUs can be had."""
        home = self.folder / "fleet"
        home.mkdir(mode=0o700)
        places = [await self.invite() for _ in range(count)]
        lines = [json.dumps({key: place[key] for key in ("name", "token", "topology")}) for place in places]
        (home / "enrolments.jsonl").write_text("\n".join(lines))
        (home / "enrolments.jsonl").chmod(0o600)
        argv = [sys.executable, "-m", "gpuaas", "agent", "fleet", "--url", self.plane.api.url]
        self.start([*argv, "--state-dir", str(home), "--control", str(self.control)], "fleet")
        await self.sellable(8 * count)

    @property
    def control(self) -> Path:
        return self.folder / "control.sock"

    def start(self, argv: list[str], name: str) -> subprocess.Popen[bytes]:
        """A program that ends with the site, if not before."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running.append(subprocess.Popen(argv, stdout=log, stderr=log, env=os.environ))
        return self._running[-1]

    async def sellable(self, gpus: int, seconds: float = SECONDS) -> None:
        until = clock.monotonic() + seconds
        while (found := (await self.sql(SELLABLE, self.sku_id))[0]["count"]) < gpus:
            assert clock.monotonic() < until, f"{found} of {gpus} GPUs can be had"
            await asyncio.sleep(0.2)

    async def fault(self, **wanted: Any) -> ControlAnswer:
        answer = await asyncio.to_thread(ask, [self.control], ControlRequest(**wanted))
        assert answer.ok, answer.message
        return answer

    # workers ---------------------------------------------------------------------------------------------------------
    async def worker(self) -> ProgramProcess:
        """One more, with the keys of the first."""
        first = self.plane.worker
        started = ProgramProcess("worker", "", "", self.folder / f"worker-{len(self.workers)}.log")
        started.settings = first.settings | {"GPUAAS_METRICS_PORT": str(started.port)}
        self.workers.append(started.start())
        await started.wait_ready(30)
        return started

    def named(self, owner: str) -> ProgramProcess:
        """The worker that a lease names."""
        [found] = [worker for worker in self.workers if worker.alive and owner.endswith(f":{worker.pid}")]
        return found

    # the books -------------------------------------------------------------------------------------------------------
    async def sql(self, query: str, *arguments: Any) -> list[Any]:
        return await self.plane.asked(query, *arguments)

    async def flow(self, allocation_id: str) -> dict[str, Any]:
        """The last one of an allocation."""
        rows = await self.sql(
            "SELECT kind, state, step, lease_owner, lease_until > now() AS leased, fence, error FROM flow_runs "
            "WHERE subject_id = $1 ORDER BY id DESC LIMIT 1",
            allocation_id,
        )
        return dict(rows[0])

    async def broken(self) -> list[str]:
        """What the invariants say."""
        return [
            f"{view['viewname']}: {row['subject']} {row['problem']}"
            for view in await self.sql(INVARIANTS)
            for row in await self.sql(f"SELECT subject, problem FROM {view['viewname']}")
        ]

    async def sound(self, seconds: float = SECONDS) -> None:
        """The invariants hold, at the latest when what was under way has arrived."""
        until = clock.monotonic() + seconds
        while broken := await self.broken():
            assert clock.monotonic() < until, broken
            await asyncio.sleep(0.5)

    async def stop(self) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            await asyncio.to_thread(process.wait, 20)
        for program in (*self.workers, self.relay):
            if program is not None:
                program.kill()


@asynccontextmanager
async def site_of(
    database: DatabaseUrls, nats_url: str, folder: Path, sku: dict[str, Any] | None = None
) -> AsyncIterator[Site]:
    """With a tenant and one worker, and without machines."""
    async with control_plane(database, nats_url, folder) as plane:
        headers = {"Authorization": f"Bearer {plane.operator.environment['GPUAAS_TOKEN']}"}
        limits = httpx.Limits(max_connections=60)
        url = f"{plane.api.url}/api/v1"
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30, limits=limits) as client:
            site = Site(plane, folder, client, workers=[plane.worker])
            site.relay = ProgramProcess("relay", database.app, nats_url, folder / "relay.log").start()
            try:
                await site.relay.wait_ready(30)
                await site.settle(sku or BAREMETAL)
                yield site
            finally:
                await site.stop()
