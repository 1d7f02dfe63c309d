"""Ground for flows: simulated machines that do what they are ordered with the agent's own code, an executor, and a
tenant. Orders travel as signed tasks through the agents' API; only the wire and the certificates are left out."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import msgspec

from gpuaas.contracts.http.allocations import AllocationState, Isolation, StopReason
from gpuaas.contracts.http.flows import FlowKind
from gpuaas.contracts.tasks.base import TASK_TYPES, Order
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations import store as allocation_store
from gpuaas.domains.allocations.models import Allocation, NewAllocation
from gpuaas.domains.allocations.placement import service as placement
from gpuaas.domains.allocations.queue import service as queue
from gpuaas.domains.allocations.stopping import service as stopping
from gpuaas.domains.allocations.watching.service import Watchers
from gpuaas.domains.inventory import service as inventory
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.domains.nodes.reimaging import AgentReimaging
from gpuaas.domains.runs import service as runs
from gpuaas.domains.runs.models import Run
from gpuaas.flows.catalogue import FLOWS
from gpuaas.flows.executor import Executor
from gpuaas.flows.story import Flow
from gpuaas.infra.hosts.simulated.host import SimulatedHost
from gpuaas.infra.hosts.simulated.topology import read_description
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.sealing import FieldSealer
from gpuaas.infra.signing import SigningKeys
from gpuaas.kit import clock
from gpuaas.kit.ids import AllocationId, OrgId, ProjectId, SkuId, new_id
from gpuaas.kit.secrets import MasterKey
from gpuaas.ports.host import HostFailed
from gpuaas.processes.agent.leases import Leases
from gpuaas.processes.agent.state_directory import StateDirectory
from gpuaas.processes.agent.tasks import Asked, Tools, perform
from tests.support.fleet import EVERYTHING, Agent, Fleet, fleet_of
from tests.support.money import given
from tests.support.people import Person, found

SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB6Ds2tBT9XT0y6Vu9hsN9l8ZC5MRmZ8xqHvGJ6Qe1yz"
BAREMETAL = {
    "title": "8 × H200, bare metal",
    "shape": "baremetal",
    "gpu_vendor": "NVIDIA",
    "gpu_model": "H200",
    "gpu_memory_bytes": 141 * (1 << 30),
    "gpus_per_node": 8,
    "allowed_gpu_counts": [1, 2, 4, 8],
    "region": "eu-1",
    "micros_per_gpu_hour": 3_600_000,
}


class NoUpdates:
    async def update(self, *_: Any) -> Any:
        raise AssertionError("nobody asked for an update")


@dataclass
class Machine(Agent):
    """A node that does what it is ordered, on a simulated host, with the agent's own hands."""

    host: SimulatedHost = None  # type: ignore[assignment] # always given
    leases: Leases = None  # type: ignore[assignment] # always given
    silent: bool = False
    """Cut off: it neither fetches nor tells."""
    done: list[str] = field(default_factory=list)
    hand: list[Order] = field(default_factory=list)
    """Fetched and not told of: what an agent takes up again after a crash."""

    def home(self, login: str) -> Path:
        return self.host.homes / login

    async def beat(self) -> None:
        if not self.silent:
            found(await self.heartbeat(accounts=await self.host.accounts(), leases=self.leases.all), 200)

    async def labour(self) -> int:
        """Fetch what is to do and do it; how many orders that were."""
        if self.silent:
            return 0
        self.hand += await self.claim()
        orders = len(self.hand)
        while self.hand:
            await self.obey(self.hand[0])
            self.hand.pop(0)
        return orders

    async def obey(self, order: Order) -> None:
        task = msgspec.json.decode(order.arguments, type=TASK_TYPES[order.type, order.version])

        async def tell(name: str, detail: str) -> None:
            phases = {"phases": [{"name": name, "at": clock.now(), "detail": detail}]}
            found(await self.say(f"/tasks/{order.task_id}/phases", phases), 200)

        self.done.append(order.type)
        tools = Tools(self.host, NoUpdates(), self.leases)
        try:
            result = await perform(Asked(order.task_id, order.subject_id, tools, tell), task)
        except HostFailed as failure:
            await self.report(order.task_id, "failed", code=failure.code, reason=str(failure))
            return
        await self.report(order.task_id, result=msgspec.to_builtins(result))


@dataclass
class Ground:
    fleet: Fleet
    directory: Path
    sku_id: UUID
    owner: Person
    org_id: UUID
    project_id: UUID
    machines: list[Machine] = field(default_factory=list)

    @property
    def db(self) -> Database:
        return self.fleet.db

    @property
    def parts(self) -> Any:
        return self.fleet.city.parts

    async def machine(self, topology: str = "8xh200") -> Machine:
        """One more node, whose GPUs can be sold."""
        made = await self.fleet.created(sku_id=str(self.sku_id))
        node_id = UUID(made["id"])
        async with self.db.transaction(EVERYTHING, "test") as tx:
            await registry.node_enrolled(tx, node_id, "0.1.0")
        home = self.directory / node_id.hex
        host = SimulatedHost(home / "host", read_description(topology), node_id.hex[-12:])
        leases = Leases(StateDirectory.make(home / "state"), host)
        serials = [gpu.serial for gpu in (await host.inspect()).gpus]
        machine = Machine(node_id, self.fleet.agents, serials, host=host, leases=leases)
        self.machines.append(machine)
        await machine.beat()
        await self.settle()
        return machine

    async def anew(self) -> Machine:
        """Forget the machines there were, and have one that is nobody's."""
        self.machines.clear()
        async with self.db.transaction(EVERYTHING, "test") as tx:
            await tx.run("UPDATE nodes SET cordoned = true")
        return await self.machine()

    async def settle(self) -> None:
        """Sign, work and react until nobody has anything to do."""
        for _ in range(50):
            await self.fleet.sign()
            worked = sum([await machine.labour() for machine in self.machines])
            await self.fleet.react()
            if not worked:
                return
        raise AssertionError("there is always something to do")

    def executor(self, flows: dict[FlowKind, Flow] | None = None, **options: Any) -> Executor:
        options.setdefault("worker", "w1")
        return Executor(self.db, flows or FLOWS, self.parts, **options)

    async def run(self, executor: Executor | None = None, *, rounds: int = 200) -> None:
        """Until no flow has anything to do: executor and machines take turns."""
        executor = executor or self.executor()
        for _ in range(rounds):
            acted = await executor.run_due()
            await self.fleet.sign()
            worked = sum([await machine.labour() for machine in self.machines])
            await self.fleet.react()
            if not acted and not worked and not await self._due():
                return
        raise AssertionError("flows do not come to rest")

    async def _due(self) -> bool:
        """Whether something will be due within a moment: a step that is tried again, a lease that ends."""
        async with self.db.read(EVERYTHING) as tx:
            soon = await tx.value(
                "SELECT extract(epoch FROM min(greatest(next_at, lease_until)) - now()) FROM flow_runs "
                "WHERE state IN ('forward', 'undoing') AND next_at < now() + interval '5 seconds'"
            )
        if soon is None:
            return False
        await asyncio.sleep(min(max(float(soon), 0.0) + 0.01, 2.0))
        return True

    async def reserve(self, gpu_count: int = 1, node_count: int = 1, **changed: Any) -> Allocation:
        """An allocation with its slots held and its flow begun."""
        async with self.db.transaction(EVERYTHING, "test") as tx:
            sku = await inventory.sku_get(tx, SkuId(self.sku_id))
            price = (await inventory.prices_now(tx, [sku.id]))[sku.id]
            allocation_id = AllocationId(new_id())
            fields: dict[str, Any] = {
                "id": allocation_id,
                "org_id": OrgId(self.org_id),
                "project_id": ProjectId(self.project_id),
                "name": f"a-{allocation_id.hex[-12:]}",
                "sku_id": sku.id,
                "gpu_count": gpu_count,
                "node_count": node_count,
                "isolation": Isolation.USER_REVOKE,
                "price_id": price.id,
                "tags": [],
                "requested_by": self.owner.email,
                "requested_by_id": self.owner.id,
                "ssh_keys": [SSH_KEY],
                "lease_seconds": 3600,
                "queue_seconds": 3600.0,
                "correlation_id": "test",
            }
            allocation = await allocation_store.insert(tx, NewAllocation(**(fields | changed)))
            ask = placement.Ask(sku=sku, gpu_count=gpu_count, node_count=node_count)
            placed = await placement.place(tx, allocation.id, allocation.org_id, ask, lease_seconds=600)
            assert placed is not None, "nothing fits"
            return await allocations.allocation_placed(tx, allocation, placed)

    async def active(self, gpu_count: int = 1, node_count: int = 1, **changed: Any) -> Allocation:
        made = await self.reserve(gpu_count, node_count, **changed)
        await self.run()
        made = await self.read(made.id)
        assert made.state is AllocationState.ACTIVE, f"{made.state}: {made.failure}"
        return made

    async def ask(self, **wanted: Any) -> httpx.Response:
        """As the owner, through the API."""
        body = {"sku_id": str(self.sku_id), "ssh_keys": [SSH_KEY], **wanted}
        return await self.fleet.city.ask(self.owner, "POST", f"/projects/{self.project_id}/allocations", body)

    async def estimate(self, **wanted: Any) -> Any:
        query = {"sku_id": str(self.sku_id), **wanted}
        path = f"/projects/{self.project_id}/allocation-estimate"
        return found(await self.fleet.city.ask(self.owner, "GET", path, **query), 200)

    async def serve(self) -> list[UUID]:
        """The queue, once."""
        return await queue.queue_serve(self.db, self.fleet.city.policy)

    async def say(self, method: str, path: str = "", body: Any = None, **query: Any) -> httpx.Response:
        """As the owner, about the project's allocations."""
        return await self.fleet.city.ask(
            self.owner, method, f"/projects/{self.project_id}/allocations{path}", body, **query
        )

    async def release(self, allocation_id: UUID) -> None:
        async with self.db.transaction(EVERYTHING, "test") as tx:
            await allocations.allocation_release(tx, allocation_id, by="test", reason="given back")

    async def stop(self, allocation_id: UUID, reason: StopReason = StopReason.BALANCE) -> None:
        async with self.db.transaction(EVERYTHING, "test") as tx:
            await stopping.allocation_stop(tx, AllocationId(allocation_id), reason=reason, by="test")

    async def start(self, allocation_id: UUID) -> None:
        async with self.db.transaction(EVERYTHING, "test") as tx:
            await stopping.allocation_start(tx, AllocationId(allocation_id), by="test")

    async def read(self, allocation_id: UUID) -> Allocation:
        async with self.db.read(EVERYTHING) as tx:
            return await allocations.allocation_get(tx, allocation_id)

    async def flow(self, subject_id: UUID, kind: FlowKind) -> Run:
        """The last one of its kind."""
        async with self.db.read(EVERYTHING) as tx:
            newest = UUID(int=(1 << 128) - 1)
            return (await runs.run_list(tx, before=newest, state=None, kind=kind, subject_id=subject_id, limit=1))[0]

    async def leftovers(self) -> list[str]:
        """What is on the machines and belongs to no live allocation, and what the invariants say."""
        async with self.db.read(EVERYTHING) as tx:
            live = await tx.rows("SELECT id FROM allocations WHERE state NOT IN ('requested', 'released', 'failed')")
            views = await tx.rows(  # no relay runs here, and nobody seals: events and audit rows wait
                "SELECT viewname FROM pg_views WHERE viewname LIKE 'invariant%' "
                "AND viewname NOT LIKE 'invariant_11%' AND viewname NOT LIKE 'invariant_19%'"
            )
            broken = [
                f"{view['viewname']}: {row['subject']} {row['problem']}"
                for view in views
                for row in await tx.rows(f"SELECT subject, problem FROM {view['viewname']}")
            ]
        alive = {row["id"] for row in live}
        for machine in self.machines:
            broken += [f"lease of {who} on {machine.id}" for who in machine.leases.all if who not in alive]
            if not alive:
                broken += [f"account {login} on {machine.id}" for login in await machine.host.accounts()]
        return broken


@asynccontextmanager
async def ground_of(db: Database, *, machines: int = 1, master: MasterKey | None = None) -> AsyncIterator[Ground]:
    with tempfile.TemporaryDirectory(prefix="ground-") as directory:
        async with fleet_of(db) as fleet:
            master = master or MasterKey(b"m" * 32)
            for part in (FieldSealer(master), SigningKeys(master), AgentReimaging(), Watchers(fleet.hints)):
                fleet.city.parts.add(part)
            sku = await fleet.city.made(fleet.admin, "/skus", {"name": f"bare-{new_id().hex[-8:]}", **BAREMETAL})
            owner = await fleet.city.person("owner")
            org_id = await fleet.city.org(owner)
            await given(db, org_id)
            project = await fleet.city.made(owner, f"/orgs/{org_id}/projects", {"name": "training"})
            made = Ground(fleet, Path(directory), UUID(sku["id"]), owner, UUID(org_id), UUID(project["id"]))
            for _ in range(machines):
                await made.machine()
            yield made
