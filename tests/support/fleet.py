"""A fleet for tests: operators who ask the API, agents that speak on the agents' application as nodes they are, and the
worker's parts (signing, reactions, sweeps) run by hand. Everything is the real thing but the certificates."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
import msgspec

from gpuaas.contracts.actor import Actor, ActorKind
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.base import EVENT_TYPES, Envelope
from gpuaas.contracts.tasks.base import PAYLOAD_TYPE, Order
from gpuaas.domains import load_handlers
from gpuaas.domains.nodes.claims.service import TaskWaiters
from gpuaas.domains.nodes.liveness.service import Heartbeats
from gpuaas.domains.nodes.probes.addresses import networks
from gpuaas.domains.nodes.probes.service import ProbeRules
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.domains.nodes.registry.models import Addresses
from gpuaas.domains.nodes.tasks import service as tasks
from gpuaas.domains.nodes.tasks.handlers import tasks_sign_once
from gpuaas.domains.nodes.tasks.signing import TaskSigner
from gpuaas.domains.pki.site import Pki
from gpuaas.infra.ca.builtin import BuiltInCa
from gpuaas.infra.events import HANDLERS
from gpuaas.infra.http.app import App
from gpuaas.infra.http.operation import REGISTRY
from gpuaas.infra.http.pipeline import Edge
from gpuaas.infra.objects.store import open_objects
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit import clock
from gpuaas.kit.errors import Unauthenticated
from gpuaas.kit.ids import new_id
from gpuaas.kit.secrets import MasterKey
from gpuaas.ports.hints import Hints
from tests.support.live import OBJECTS
from tests.support.people import City, Person, city_of, found

EVERYTHING = Sight(PLATFORM)
GIB = 1 << 30
SKU = {
    "title": "8 × H200",
    "shape": "gpu_slice",
    "gpu_vendor": "NVIDIA",
    "gpu_model": "H200",
    "gpu_memory_bytes": 141 * GIB,
    "gpus_per_node": 4,
    "allowed_gpu_counts": [1, 2, 4],
    "region": "eu-1",
    "micros_per_gpu_hour": 3_500_000,
}


class HintsHere(Hints):
    """Hints inside of this process."""

    def __init__(self) -> None:
        self._listeners: list[tuple[str, Callable[[str], None]]] = []
        self.told: list[str] = []
        self.deaf = False

    def tell(self, subject: str) -> None:
        self.told.append(subject)
        for pattern, heard in self._listeners:
            if not self.deaf and subject.startswith(pattern.rstrip("*")):
                heard(subject)

    def listen(self, pattern: str, heard: Callable[[str], None]) -> None:
        self._listeners.append((pattern, heard))


class NodesByName:
    """Implements `ports.agent_authority.AgentAuthority`: the certificate is the node's id."""

    async def node(self, certificate: bytes | None) -> Actor:
        if certificate is None:
            raise Unauthenticated(Code.CREDENTIAL_MISSING, "Show the node's certificate.")
        return Actor(kind=ActorKind.NODE, id=UUID(certificate.decode()))


class AgentDoor:
    """The agents' application, told which node speaks by a header of the tests' own."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        who = dict(scope["headers"]).get(b"x-test-node")
        await self._app({**scope, "peer_certificate": who}, receive, send)


@dataclass
class Agent:
    """A node's agent, as far as its words go."""

    id: UUID
    client: httpx.AsyncClient
    serials: list[str]
    next_sequence: int = 1
    boot_id: str = "boot-1"

    async def say(self, path: str, body: Any = None, *, method: str = "POST") -> httpx.Response:
        content = None if body is None else msgspec.json.encode(body)
        return await self.client.request(
            method,
            "/agent/v1" + path,
            content=content,
            headers={"x-test-node": str(self.id), "content-type": "application/json"},
        )

    async def claim(self, wait_seconds: int = 0) -> list[Order]:
        """What is to do, and remember that it was seen."""
        said = found(await self.say("/claim", {"next_sequence": self.next_sequence, "wait_seconds": wait_seconds}), 200)
        orders = [order_of(envelope) for envelope in said["envelopes"]]
        if orders:
            self.next_sequence = orders[-1].sequence + 1
        return orders

    async def heartbeat(self, **changed: Any) -> httpx.Response:
        return await self.say(
            "/heartbeat",
            {
                "boot_id": self.boot_id,
                "agent_version": "0.1.0",
                "next_sequence": self.next_sequence,
                "sent_at": clock.now(),
                "generation": 1,
                "accounts": [],
                **changed,
            },
        )

    async def report(self, task_id: UUID, outcome: str = "done", **more: Any) -> httpx.Response:
        return await self.say(f"/tasks/{task_id}/result", {"outcome": outcome, "ended_at": clock.now(), **more})

    async def fault(self, serial: str, *, kind: str = "hardware", code: str = "XID 79", **more: Any) -> httpx.Response:
        return await self.say(
            "/faults", {"faults": [{"serial": serial, "kind": kind, "code": code, "at": clock.now(), **more}]}
        )

    def topology(self, **changed: Any) -> dict[str, Any]:
        return topology(self.serials, **changed)

    def health(self, *, sick: tuple[str, ...] = (), host: bool = True, only: list[str] | None = None) -> dict[str, Any]:
        return {
            "health": {
                "healthy": host and not sick,
                "checks": [{"name": "disk", "passed": host}],
                "gpus": [
                    {
                        "serial": serial,
                        "healthy": serial not in sick,
                        "checks": [{"name": "load", "passed": serial not in sick}],
                    }
                    for serial in (only or self.serials)
                ],
            }
        }

    async def work(self, **answers: Any) -> list[Order]:
        """Fetch everything and do it well; `health` or `topology` say otherwise."""
        orders = await self.claim()
        for order in orders:
            wanted = msgspec.json.decode(order.arguments)
            if order.type == "node.inspect":
                result: Any = {"topology": answers.get("topology") or self.topology()}
            elif order.type == "node.health":
                result = answers.get("health") or self.health(only=wanted["serials"] or None)
            elif order.type == "node.drain":
                result = {"accounts": []}
            else:
                raise AssertionError(f"no answer to {order.type}")
            found(await self.report(order.task_id, result=result), 200)
        return orders


def order_of(envelope: str) -> Order:
    outer = msgspec.json.decode(envelope)
    assert outer["payloadType"] == PAYLOAD_TYPE
    return msgspec.json.decode(base64.b64decode(outer["payload"]), type=Order)


def topology(serials: list[str], *, model: str = "NVIDIA H200", **changed: Any) -> dict[str, Any]:
    return {
        "hostname": "gpu-1",
        "os": "Debian 12",
        "kernel": "6.1",
        "boot_id": "boot-1",
        "cpu_model": "EPYC",
        "cpu_count": 64,
        "memory_bytes": 512 * GIB,
        "numa_nodes": 2,
        "iommu": True,
        "nvmes": [],
        "fabrics": [],
        "gpus": [
            {
                "index": index,
                "address": f"0000:{index:02x}:00.0",
                "vendor": "NVIDIA",
                "model": model,
                "serial": serial,
                "memory_bytes": 141 * GIB,
                "numa": index // 2,
            }
            for index, serial in enumerate(serials)
        ],
        **changed,
    }


@dataclass
class Fleet:
    """One installation with nodes."""

    city: City
    agents: httpx.AsyncClient
    hints: HintsHere
    waiters: TaskWaiters
    signer: TaskSigner
    admin: Person
    sku_id: str = ""
    handled: set[UUID] = field(default_factory=set)

    @property
    def db(self) -> Database:
        return self.city.db

    async def created(self, **changed: Any) -> Any:
        """A node that waits for its agent."""
        return await self.city.made(
            self.admin,
            "/nodes",
            {"name": f"n-{new_id().hex[-12:]}", "region": "eu-1", "sku_id": self.sku_id, **changed},
        )

    async def enrolled(self, **changed: Any) -> Agent:
        """A node in service, past the certificate authority, which has tests of its own."""
        made = await self.created(**changed)
        return await self.enrol(UUID(made["id"]))

    async def enrol(self, node_id: UUID) -> Agent:
        async with self.db.transaction(EVERYTHING, "test") as tx:
            await registry.node_enrolled(tx, node_id, "0.1.0")
        return Agent(node_id, self.agents, [f"S{new_id().hex[-10:]}-{index}" for index in range(4)])

    async def ready(self, **changed: Any) -> Agent:
        """A node whose GPUs can be sold."""
        agent = await self.enrolled(**changed)
        found(await agent.heartbeat(), 200)
        await self.sign()
        await agent.work()
        await self.react()
        return agent

    async def sign(self) -> int:
        """All that is queued."""
        rounds = 0
        async with self.db.transaction(EVERYTHING, "test") as tx:
            await tasks.key_ensure(tx, self.signer)
        while await tasks_sign_once(self.db, self.signer, self.hints):
            rounds += 1
        return rounds

    async def react(self) -> None:
        """Every reaction of nodes and allocations to every event that was not handled yet, until there is none."""
        while True:
            async with self.db.read(EVERYTHING) as tx:
                rows = await tx.rows(
                    "SELECT * FROM outbox WHERE stream IN ('PROVISIONING', 'BILLING') AND NOT id = ANY($1) ORDER BY id",
                    list(self.handled),
                )
            if not rows:
                return
            for row in rows:
                self.handled.add(row["id"])
                await self._deliver(row)

    async def _deliver(self, row: Any) -> None:
        kind = EVENT_TYPES[row["name"]]
        event = msgspec.json.decode(row["payload"], type=kind)
        envelope = Envelope(
            id=row["id"],
            name=row["name"],
            version=1,
            occurred_at=row["created_at"],
            org_id=row["org_id"],
            subject_id=row["subject_id"],
            actor=row["actor"],
            correlation_id="",
            traceparent="",
            payload=msgspec.Raw(row["payload"].encode()),
        )
        for reaction in HANDLERS.reactions():
            if reaction.name.startswith(("nodes.", "allocations.")) and kind in reaction.events:
                async with self.db.transaction(EVERYTHING, "test") as tx:
                    extra = {"parts": self.city.parts} if reaction.wants_parts else {}
                    await reaction.handler(tx, event, envelope, **extra)

    async def node(self, agent: Agent | UUID) -> Any:
        return await self.city.get(self.admin, f"/nodes/{agent.id if isinstance(agent, Agent) else agent}")

    async def slots(self, agent: Agent) -> dict[str, Any]:
        """By serial."""
        page = await self.city.get(self.admin, "/slots", node_id=str(agent.id))
        return {slot["serial"]: slot for slot in page["items"]}

    async def order(self, path: str, body: Any = None, status: int = 202) -> Any:
        return found(await self.city.ask(self.admin, "POST", path, body), status)

    async def events(self, name: str, subject_id: UUID) -> list[Any]:
        async with self.db.read(EVERYTHING) as tx:
            rows = await tx.rows(
                "SELECT payload FROM outbox WHERE name = $1 AND subject_id = $2 ORDER BY id", name, subject_id
            )
        return [msgspec.json.decode(row["payload"]) for row in rows]


@asynccontextmanager
async def fleet_of(db: Database) -> AsyncIterator[Fleet]:
    load_handlers()
    hints, master = HintsHere(), MasterKey(b"m" * 32)
    waiters = TaskWaiters(db, hints)
    site = Pki(ca=BuiltInCa(master), trust_domain="gpuaas.test", agent_url="https://agents.test")
    signer = TaskSigner(os.urandom(32))
    rules = ProbeRules(networks("10.0.0.0/8,192.168.0.0/16"))
    async with city_of(db, hints, waiters, site, rules, Addresses(public_url="https://gpuaas.test")) as city:
        city.parts.add(Heartbeats(db, city.policy))
        city.parts.add(open_objects(OBJECTS.as_uri()))
        edge = Edge(
            db=db,
            authority=city.authority,
            agents=NodesByName(),
            policy=city.policy,
            cursor_key=master.cursor_key,
            parts=city.parts,
        )
        transport = httpx.ASGITransport(
            app=AgentDoor(App(REGISTRY, edge, pages={}, agents=True)), raise_app_exceptions=False
        )

        db.hints = hints
        following = asyncio.create_task(waiters.follow())
        async with httpx.AsyncClient(transport=transport, base_url="http://agents", timeout=60) as agents:
            fleet = Fleet(city, agents, hints, waiters, signer, await city.admin())
            await fleet.sign()  # announces the key, without which nobody is enrolled
            sku = await city.made(fleet.admin, "/skus", {"name": f"sku-{new_id().hex[-8:]}", **SKU})
            fleet.sku_id = sku["id"]
            yield fleet
        following.cancel()
