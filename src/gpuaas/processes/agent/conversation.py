"""The talk with the control plane: heartbeats, with metrics now and then, on one connection; claims that wait for
orders on another. Sharing one would halve the connections of an idle node and double its requests."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.client.agent import AgentApi
from gpuaas.client.errors import ApiError, ClientError
from gpuaas.contracts.http.agent import MAX_WAIT_SECONDS, Claim, Desired, Heartbeat, Sample
from gpuaas.kit import clock, log
from gpuaas.ports.host import Host, HostFailed
from gpuaas.processes.agent.backoff import REFUSED_SECONDS, Backoff
from gpuaas.processes.agent.hands import Hands
from gpuaas.processes.agent.leases import Leases
from gpuaas.processes.agent.metrics_journal import MetricsJournal
from gpuaas.processes.agent.state_directory import StateDirectory
from gpuaas.processes.agent.task_log import TaskLog
from gpuaas.processes.agent.trusting import Trusting
from gpuaas.processes.agent.usage_counter import UsageCounter

DESIRED = "desired.json"
HEARTBEAT_SECONDS = 5.0
SAMPLE_SECONDS = 15.0
SHIP_SECONDS = 60.0
BATCHES_AT_ONCE = 4
HOST_SECONDS = 10.0
NOTHING_NEW_SECONDS = 1.0


class TakenOver(msgspec.Struct, frozen=True):
    """The desired state the host was brought to."""

    generation: int = 0
    drained: bool = False


class Conversation:
    def __init__(
        self,
        api: AgentApi,
        state: StateDirectory,
        tasks: TaskLog,
        hands: Hands,
        host: Host,
        trusting: Trusting,
        leases: Leases,
        *,
        version: Callable[[], str],
        now: Callable[[], datetime],
        sign: Callable[[Mapping[UUID, int]], str],
    ) -> None:
        self._sign, self._usage = sign, UsageCounter(state)
        self._api, self._state, self._tasks, self._hands, self._host = api, state, tasks, hands, host
        self._trusting, self._leases, self._version, self._now = trusting, leases, version, now
        self._journal = MetricsJournal(state.folder("metrics"))
        self._boot_id = ""
        self._accounts: list[str] = []
        self._told_keys: set[str] = set()
        self._pause = HEARTBEAT_SECONDS
        self._soon = asyncio.Event()
        self._ship_at = clock.monotonic() + SHIP_SECONDS
        kept = state.read(DESIRED)
        self._taken = msgspec.json.decode(kept, type=TakenOver) if kept else TakenOver()
        self.on_healthy: Callable[[], Awaitable[None]] | None = None
        """Called after the first heartbeat that was answered."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as sides:
            sides.create_task(self._sample(), name="sampling")
            sides.create_task(self._again_and_again(self._beat), name="heartbeats")
            sides.create_task(self._again_and_again(self._claim), name="claims")

    async def _again_and_again(self, turn: Callable[[], Awaitable[None]]) -> None:
        """For ever; slower while the control plane is away or does not want us."""
        backoff = Backoff()
        while True:
            try:
                await turn()
                backoff.reset()
            except ApiError as error:
                log.get_logger().warning("refused", code=error.code, status=error.status)
                refused = 400 <= error.status < 500
                wait = backoff.next(REFUSED_SECONDS / 12 if refused else 0.0)
                await asyncio.sleep(max(wait, error.retry_after or 0.0))
            except ClientError as error:
                log.get_logger().warning("no answer", why=str(error))
                await asyncio.sleep(backoff.next())

    async def _beat(self) -> None:
        self._soon.clear()
        await self._heartbeat()
        if clock.monotonic() >= self._ship_at:
            await self._ship()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._soon.wait(), self._pause)

    async def _claim(self) -> None:
        before = self._tasks.next_sequence
        claimed = await self._api.claim(Claim(next_sequence=before, wait_seconds=MAX_WAIT_SECONDS))
        self._hands.cancel(claimed.cancelled)
        for envelope in claimed.envelopes:
            await self._take(envelope)
        if claimed.envelopes and self._tasks.next_sequence == before:
            await asyncio.sleep(NOTHING_NEW_SECONDS)  # what we refused would come again at once

    async def _take(self, envelope: str) -> None:
        """One that nobody we trust signed may be signed by somebody we should: asked before it is refused."""
        if await self._hands.take(envelope, self._trusting.trust):
            return
        if await self._trusting.refresh() and await self._hands.take(envelope, self._trusting.trust):
            return
        await self._hands.disbelieve(envelope)

    async def _heartbeat(self) -> None:
        await self._observe()
        counted = self._usage.all
        desired = await self._api.heartbeat(
            Heartbeat(
                boot_id=self._boot_id[:100],
                agent_version=self._version(),
                next_sequence=self._tasks.next_sequence,
                sent_at=self._now(),
                generation=self._taken.generation,
                accounts=self._accounts[:1000],
                leases=self._leases.all,
                usage=counted,
                usage_signature=self._sign(counted) if counted else "",
            )
        )
        self._pause = min(max(desired.heartbeat_seconds, 0.2), 300.0)
        await self._follow_keys(desired.task_keys)
        await self._take_over(desired)
        if self.on_healthy is not None:
            healthy, self.on_healthy = self.on_healthy, None
            await healthy()

    async def _follow_keys(self, names: list[str]) -> None:
        """A key that came or went is followed, or forgotten, within a heartbeat; by its chain as ever, and asked for
        once: what does not lead to it now will not a moment later."""
        if names and set(names) != self._told_keys:
            if set(names) != self._trusting.trust.task_keys.keys():
                await self._trusting.refresh()
            self._told_keys = set(names)

    async def _observe(self) -> None:
        """What the host shows now; a host that does not answer is alive as long as its agent is, and as it was."""
        try:
            async with asyncio.timeout(HOST_SECONDS):
                if self._boot_id in ("", "unknown"):
                    self._boot_id = (await self._host.inspect()).boot_id or "unknown"
                self._accounts = await self._host.accounts()
        except (TimeoutError, HostFailed, OSError) as error:
            self._boot_id = self._boot_id or "unknown"
            log.get_logger().warning("the host cannot be observed", why=str(error))

    async def _take_over(self, desired: Desired) -> None:
        """Bring the host to what is wanted; told with the next heartbeat, which is due at once."""
        if desired.generation == self._taken.generation:
            return
        if desired.drained != self._taken.drained:
            try:
                await self._host.drain(drained=desired.drained)
            except HostFailed as error:
                log.get_logger().warning("cannot take over what is wanted", why=str(error))
                return
        self._taken = TakenOver(desired.generation, desired.drained)
        self._state.write(DESIRED, msgspec.json.encode(self._taken))
        self._soon.set()

    async def _sample(self) -> None:
        while True:
            try:
                async with asyncio.timeout(HOST_SECONDS):
                    values = await self._host.metrics()
                faulty = {fault.serial for fault in await self._host.faults()}
                self._usage.look(self._leases.all, usable_serials(values) - faulty)
                if values:
                    self._journal.add(Sample(at=self._now(), values=dict(list(values.items())[:1000])))
            except Exception as error:  # noqa: BLE001 - what cannot be measured is not worth an agent
                log.get_logger().warning("nothing measured", why=str(error))
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _ship(self) -> None:
        """Some of what was measured, the oldest first; all of a backlog goes within a few turns."""
        for _ in range(BATCHES_AT_ONCE):
            batch = self._journal.oldest()
            if batch is None:
                break
            try:
                await self._api.metrics(batch)
            except ApiError as error:
                if error.status >= 500 or error.status in (401, 403, 429):
                    raise
            self._journal.shipped(batch.batch_id)
        if self._journal.batches == 0:
            self._ship_at = clock.monotonic() + SHIP_SECONDS


def usable_serials(values: Mapping[str, float]) -> set[str]:
    """The GPUs that answered when they were measured."""
    parts = (name.split(".") for name in values if name.startswith("gpu.") and name.endswith(".utilisation_percent"))
    return {".".join(name[1:-1]) for name in parts}
