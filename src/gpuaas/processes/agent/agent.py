"""One agent: its parts put together, from `run` until it is stopped. Many may live in one process."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import datetime

from gpuaas.client.agent import AgentApi
from gpuaas.kit import clock
from gpuaas.ports.host import Host
from gpuaas.processes.agent.conversation import Conversation
from gpuaas.processes.agent.fault_watch import watch_faults
from gpuaas.processes.agent.hands import Hands
from gpuaas.processes.agent.identity import read_enrolment, sign_usage, tls_context
from gpuaas.processes.agent.leases import Leases, Passing, nothing_strikes
from gpuaas.processes.agent.state_directory import StateDirectory
from gpuaas.processes.agent.task_log import TaskLog
from gpuaas.processes.agent.tasks import Tools, Updater
from gpuaas.processes.agent.telling import Telling
from gpuaas.processes.agent.trust import read_trust
from gpuaas.processes.agent.trusting import Trusting


class Agent:
    """Everything is read and checked when it is made; AgentError says what is wrong."""

    def __init__(
        self,
        state: StateDirectory,
        host: Host,
        updater: Callable[[AgentApi], Updater],
        *,
        version: Callable[[], str],
        now: Callable[[], datetime] = clock.now,
        on_healthy: Callable[[], Awaitable[None]] | None = None,
        passing: Passing = nothing_strikes,
    ) -> None:
        state.lock()
        enrolment, trust = read_enrolment(state), read_trust(state)
        self.node_id, self.name = enrolment.node_id, enrolment.name
        self._state, self._host = state, host
        self._tasks = TaskLog.open(state)
        leases = Leases(state, host, passing)
        self.api = AgentApi(enrolment.agent_url, tls_context(state, trust.authorities))
        self._telling = Telling(self.api, self._tasks)
        self._trusting = Trusting(self.api, state, enrolment.node_id, enrolment.name, trust, now)
        tools = Tools(host, updater(self.api), leases)
        self._hands = Hands(enrolment.node_id, self._tasks, tools, self._telling, now)
        self._talk = Conversation(
            self.api,
            state,
            self._tasks,
            self._hands,
            host,
            self._trusting,
            leases,
            version=version,
            now=now,
            sign=lambda counted: sign_usage(state, enrolment.node_id, counted),
        )
        self._talk.on_healthy = on_healthy

    async def run(self) -> None:
        """Until cancelled; a part that fails ends all of them."""
        self._hands.resume()
        try:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(self._talk.run(), name="conversation")
                parts.create_task(self._telling.run(), name="telling")
                parts.create_task(self._trusting.run(), name="trusting")
                parts.create_task(watch_faults(self.api, self._host), name="faults")
        finally:
            await self._hands.stop()
            self.close()

    def close(self) -> None:
        self.api.close()
        self._tasks.close()
        with contextlib.suppress(OSError):
            self._state.unlock()
