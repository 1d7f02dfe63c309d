"""Running the timers: each on one worker at a time, held by a lock of its name.

Always holds: a worker that dies, or whose session is lost, loses its timers to another within seconds, and stops what
it was running; a failing timer waits longer each time, and the others do not notice."""

import asyncio
import contextlib
import random
from collections.abc import Sequence

from prometheus_client import Counter, Gauge

from gpuaas.infra.events import Timer
from gpuaas.infra.postgres.database import AWAY
from gpuaas.infra.postgres.exclusive import LockSession
from gpuaas.kit import clock, log, trace
from gpuaas.kit.errors import Unavailable
from gpuaas.kit.ids import new_id
from gpuaas.kit.parts import Parts

STAND_BY_SECONDS = 2.0
CHECK_SECONDS = 1.0
REOPEN_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 300.0
RUNS = Counter("gpuaas_timer_runs", "Runs of timers by outcome.", ["timer", "outcome"])
LAST = Gauge("gpuaas_timer_last_success_timestamp_seconds", "When a timer last ran to its end.", ["timer"])
HELD = Gauge("gpuaas_timers_held", "How many timers this worker runs.")


class Timers:
    """All timers this worker can get hold of, until `stop`."""

    def __init__(self, database_url: str, timers: Sequence[Timer], parts: Parts) -> None:
        self._url = database_url
        self._timers = list(timers)
        self._parts = parts
        self._stopping = asyncio.Event()
        self._held = 0

    def stop(self) -> None:
        """Let runs in hand end and begin no other."""
        self._stopping.set()

    async def run(self) -> None:
        while not self._stopping.is_set():
            try:
                session = await LockSession.open(self._url, "timers")
            except Unavailable as fault:
                log.get_logger().warning("timers wait for the database", reason=fault.log)
                await self._wait(REOPEN_SECONDS)
                continue
            try:
                await self._hold(session)
            finally:
                self._held = 0
                HELD.set(0)
                await session.close()
            await self._wait(REOPEN_SECONDS)

    async def _hold(self, session: LockSession) -> None:
        """Run what the session's locks allow, until it is lost: then everything that runs is cancelled."""
        tasks = [asyncio.create_task(self._keep(session, timer), name=timer.name) for timer in self._timers]
        watch = asyncio.create_task(self._watch(session))
        try:
            await asyncio.wait({watch, *tasks}, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in (watch, *tasks):
                task.cancel()
            results = await asyncio.gather(watch, *tasks, return_exceptions=True)
        lost = [r for r in results if isinstance(r, Exception)]
        if lost:
            log.get_logger().warning("timers are lost", reason=f"{type(lost[0]).__name__}: {lost[0]}")

    async def _watch(self, session: LockSession) -> None:
        while not self._stopping.is_set():
            await session.check()
            await self._wait(CHECK_SECONDS)

    async def _keep(self, session: LockSession, timer: Timer) -> None:
        while not await session.take(timer.name):
            await self._wait(STAND_BY_SECONDS * _spread())
            if self._stopping.is_set():
                return
        self._held += 1
        HELD.set(self._held)
        failures = 0
        await self._wait(min(timer.every_seconds, 1.0) * random.random())  # noqa: S311 - spreads the first runs
        while not self._stopping.is_set():
            failures = 0 if await self._run_once(timer) else failures + 1
            longest = max(LONGEST_PAUSE_SECONDS, timer.every_seconds)
            await self._wait(min(timer.every_seconds * 2.0 ** min(failures, 10), longest) * _spread())

    async def _run_once(self, timer: Timer) -> bool:
        log.correlation_id.set(f"timer-{new_id().hex}")
        trace.enter()
        try:
            with trace.span(f"timer {timer.name}"):
                async with asyncio.timeout(timer.deadline_seconds):
                    await timer.handler(self._parts)
        except (*AWAY, Unavailable) as error:
            RUNS.labels(timer.name, "away").inc()
            log.get_logger().warning("timer interrupted", timer=timer.name, reason=f"{type(error).__name__}: {error}")
            return False
        except Exception as error:  # noqa: BLE001 - a timer may raise anything; it runs again later
            RUNS.labels(timer.name, "failed").inc()
            log.get_logger().error("timer failed", timer=timer.name, exc_info=error)
            return False
        RUNS.labels(timer.name, "done").inc()
        LAST.labels(timer.name).set(clock.epoch_ms() / 1000)
        return True

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


def _spread() -> float:
    return random.uniform(0.9, 1.1)  # noqa: S311 - keeps replicas from running in step
