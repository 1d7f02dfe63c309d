"""Group `agents`: what a fleet costs one api process, and how soon a node has what it was asked.

Counted as cost is the CPU time of the api process, user and kernel, of all its threads, over whole rounds of heartbeats
and claims; what the same rounds cost the worker and PostgreSQL is said beside it and has no bar."""

import asyncio
import base64
import random
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from bench.figures import RUNS, Figure, bounded
from bench.fleet_stage import (
    EVERYTHING,
    READY_SECONDS,
    FleetStage,
    cpu_seconds,
    family_cpu_seconds,
    fleet_stage,
    rss_mb,
)
from gpuaas.contracts.tasks.catalogue import HealthCheck
from gpuaas.domains.nodes.tasks import service as tasks
from gpuaas.infra.nats.bus import Bus
from gpuaas.infra.nats.hints import NatsHints
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import clock
from gpuaas.processes.agent.orders import Turn, accept, read_order

AGENTS = 500
NODES = 1000
MAX_PICKUP_MS = 250.0
MAX_RSS_MB = 400.0
MAX_CORE_PERCENT = 25.0
BEATS = NODES / 5
"""A second, by the default lease."""
PICKUPS, PICKUP_GAP_SECONDS = 200, 0.02
FLOOD = 2000
ROUND_SECONDS = 30.0
"""A whole round of claims, and six of heartbeats."""
SETTLE_SECONDS = 8.0
LONGEST_SECONDS = 120.0
BACK_SECONDS = 60.0
VERIFY_SECONDS = 1.0
MIN_VERIFY_RATIO = 5.0


def run(only: str | None) -> list[Figure]:
    wanted = {None, "pickup_p99", "rss_500", "verify", "return_500", "core_1000"}
    if only not in wanted:
        return []
    with fleet_stage(NODES) as ready:
        found: list[Figure] = []
        if only != "core_1000":
            found += _five_hundred(ready, only)
        if only in {None, "core_1000"}:
            found.append(_thousand(ready))
        return found


class Load:
    """The agents' process, and what it has said."""

    def __init__(self, ready: FleetStage, nodes: int) -> None:
        argv = [sys.executable, "-m", "bench.agents_load", ready.agents_url, str(ready.folder), str(nodes)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.arrived: dict[UUID, float] = {}
        self.said: dict[str, float] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            what, *rest = line.split()
            if what == "task":
                self.arrived[UUID(rest[0])] = float(rest[1])
            else:
                self.said[what] = float(rest[0])

    def mark(self) -> None:
        self.said.clear()
        self._tell("mark")

    def wait(self, there: Callable[[], bool], what: str, seconds: float = LONGEST_SECONDS) -> None:
        give_up_at = time.monotonic() + seconds
        while not there():
            if time.monotonic() > give_up_at or self.process.poll() is not None:
                raise RuntimeError(f"agents: waited too long for {what}")
            time.sleep(0.02)

    def wait_arrived(self, made: dict[UUID, float]) -> None:
        self.wait(lambda: made.keys() <= self.arrived.keys(), "all tasks to arrive")

    def stop(self) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.process.kill()

    def _tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()


@contextmanager
def _load(ready: FleetStage, nodes: int) -> Iterator[Load]:
    load = Load(ready, nodes)
    try:
        load.wait(lambda: "claiming" in load.said, f"{nodes} agents to wait for tasks")
        load.mark()
        load.wait(lambda: "beat" in load.said, "a heartbeat of every node")
        time.sleep(SETTLE_SECONDS)
        yield load
    finally:
        load.stop()


def _five_hundred(ready: FleetStage, only: str | None) -> list[Figure]:
    found: list[Figure] = []
    with _load(ready, AGENTS) as load:
        if only in {None, "rss_500"}:
            found.append(bounded("agents.rss_500", "MB", rss_mb(ready.api.pid), MAX_RSS_MB))
        if only in {None, "pickup_p99"}:
            found.append(_pickup(ready, load))
        if only in {None, "verify"}:
            found.append(_verify(ready, load))
        if only in {None, "return_500"}:
            found.append(_return(ready, load))
    return found


def _pickup(ready: FleetStage, load: Load) -> Figure:
    """From the commit that made a task, over a worker that signs it, to the agent that has its envelope. The median of
    several runs, so that a neighbour's burst is not ours."""
    found = []
    for _ in range(RUNS):
        made = asyncio.run(_create(ready, PICKUPS, at_once=1, gap=PICKUP_GAP_SECONDS))
        load.wait_arrived(made)
        waits = sorted((load.arrived[task_id] - at) * 1000 for task_id, at in made.items())
        found.append(waits[int(len(waits) * 0.99)])
        _info(f"pick-up: median {statistics.median(waits):.1f} ms, p99 {found[-1]:.1f} ms, worst {waits[-1]:.1f} ms")
    return bounded("agents.pickup_p99", "ms", statistics.median(found), MAX_PICKUP_MS)


def _verify(ready: FleetStage, load: Load) -> Figure:
    """How many orders an agent verifies in a second, to how many the whole path brings to all agents together."""
    made = asyncio.run(_create(ready, FLOOD, at_once=FLOOD // 4))
    load.wait_arrived(made)
    delivered = FLOOD / (max(load.arrived[task_id] for task_id in made) - min(made.values()))
    verified = asyncio.run(_verifications(ready, next(iter(made))))
    _info(f"{verified:,.0f} orders verified a second, {delivered:,.0f} delivered")
    return Figure("agents.verify", verified, "orders/s", delivered, verified / delivered, MIN_VERIFY_RATIO)


def _return(ready: FleetStage, load: Load) -> Figure:
    """The api is killed and started again under waiting agents: until the last of them has been answered and waits."""
    ready.api.kill()
    load.mark()
    began = time.monotonic()
    ready.api.start()
    load.wait(lambda: {"claiming", "beat"} <= load.said.keys(), "all agents to return")
    seconds = max(load.said["claiming"], load.said["beat"]) - began
    _info(f"since the api was started again it has used {cpu_seconds(ready.api.pid):.1f} s of CPU")
    online = asyncio.run(_online(ready))
    if online < AGENTS:
        raise RuntimeError(f"only {online} of {AGENTS} nodes are online again")
    return bounded("agents.return_500", "s", seconds, BACK_SECONDS)


def _thousand(ready: FleetStage) -> Figure:
    with _load(ready, NODES):
        began, before, answered = time.monotonic(), _costs(ready), _answered(ready)
        time.sleep(ROUND_SECONDS)
        spent = time.monotonic() - began
        api, worker, postgres = (100 * (now - then) / spent for now, then in zip(_costs(ready), before, strict=True))
        beats, claims = ((now - then) / spent for now, then in zip(_answered(ready), answered, strict=True))
    if beats < BEATS / 2:
        raise RuntimeError(f"only {beats:.0f} heartbeats a second were answered: this measures nothing")
    _info(f"{beats:.0f} heartbeats and {claims:.0f} claims a second")
    _info(f"beside the api's {api:.1f} %: worker {worker:.1f} %, PostgreSQL {postgres:.1f} % of a core")
    # On a machine too busy for the load itself, the cost of all heartbeats is that of those there were, in proportion.
    return bounded("agents.core_1000", "% of a core", api * max(1.0, BEATS / beats), MAX_CORE_PERCENT)


def _costs(ready: FleetStage) -> tuple[float, float, float]:
    return cpu_seconds(ready.api.pid), cpu_seconds(ready.worker.pid), family_cpu_seconds(ready.postgres_pid)


def _answered(ready: FleetStage) -> tuple[float, float]:
    """Heartbeats and claims answered well, as the api counts them."""
    with urllib.request.urlopen(ready.api.url.replace("readyz", "metrics"), timeout=5) as answer:
        counted = dict(line.rpartition(" ")[::2] for line in answer.read().decode().splitlines() if line[0] != "#")
    beats, claims = (
        float(counted.get(f'gpuaas_http_answers_total{{operation="{operation}",status="200"}}', 0))
        for operation in ("agent_heartbeat", "agent_claim")
    )
    return beats, claims


async def _create(ready: FleetStage, count: int, *, at_once: int, gap: float = 0.0) -> dict[UUID, float]:
    """Tasks for nodes picked at random, so many in each transaction, and when each was committed."""
    db, bus = Database(ready.app_url), Bus(ready.nats_url, "bench")
    db.hints = hints = NatsHints(bus)
    await db.open()
    bus.start()
    telling = asyncio.create_task(hints.run())
    made: dict[UUID, float] = {}
    try:
        await bus.wait_connected(READY_SECONDS)
        while len(made) < count:
            async with db.transaction(EVERYTHING, "bench") as tx:
                nodes = random.choices(ready.nodes[:AGENTS], k=at_once)
                created = [(await tasks.task_create(tx, node_id, HealthCheck())).id for node_id in nodes]
            made |= dict.fromkeys(created, clock.monotonic())
            await asyncio.sleep(gap)
    finally:
        telling.cancel()
        await bus.stop()
        await db.close()
    return made


async def _online(ready: FleetStage) -> int:
    db = Database(ready.app_url)
    await db.open()
    async with db.read(EVERYTHING) as tx:
        online = int(await tx.value("SELECT count(*) FROM node_heartbeats WHERE liveness = 'online'"))
    await db.close()
    return online


async def _verifications(ready: FleetStage, task_id: UUID) -> float:
    """The agent's own check of one order, again and again."""
    db = Database(ready.app_url)
    await db.open()
    async with db.read(EVERYTHING) as tx:
        row = await tx.row("SELECT node_id, sequence, envelope FROM tasks WHERE id = $1", task_id)
        known = await tx.rows("SELECT key_id, public_key FROM task_keys")
    await db.close()
    assert row is not None
    keys = {one["key_id"]: _public(one["public_key"]) for one in known}
    turn = Turn(row["node_id"], row["sequence"], frozenset())
    envelope, now = row["envelope"].encode(), clock.now()
    until, done = time.process_time() + VERIFY_SECONDS, 0
    while time.process_time() < until:
        order, _ = read_order(envelope, keys)
        accept(order, turn, now)
        done += 1
    return done / VERIFY_SECONDS


def _public(text: str) -> Ed25519PublicKey:

    return Ed25519PublicKey.from_public_bytes(base64.b64decode(text))


def _info(text: str) -> None:
    sys.stderr.write(f"  agents: {text}\n")
