"""Which verb of the host, or of its agent, each type of task is. One line for each type; a test lists them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from gpuaas.contracts.tasks.base import Task, TaskResult
from gpuaas.contracts.tasks.catalogue import (
    AgentUpdate,
    Drain,
    DrainResult,
    HealthCheck,
    HealthResult,
    Inspect,
    InspectResult,
    Sanitise,
    SanitiseResult,
    SlotLease,
    SlotUnlease,
    UpdateResult,
    UserProvision,
    UserRevoke,
    UserSuspend,
)
from gpuaas.ports.host import Host, PhaseTeller
from gpuaas.processes.agent.leases import Leases

EMPTY_POLL_SECONDS = 0.5


class Updater(Protocol):
    """What becomes another version of the agent."""

    async def update(self, task_id: UUID, wanted: AgentUpdate, tell: PhaseTeller) -> UpdateResult:
        """Returns in the version that stays; the one that leaves does not return."""
        ...


@dataclass(frozen=True)
class Tools:
    host: Host
    updater: Updater
    leases: Leases


@dataclass(frozen=True)
class Asked:
    """One task and what it may use."""

    task_id: UUID
    subject_id: UUID | None
    tools: Tools
    tell: PhaseTeller


async def _inspect(asked: Asked, task: Inspect) -> TaskResult:
    topology = await asked.tools.host.inspect()
    asked.tools.leases.saw(topology)
    return InspectResult(topology=topology)


async def _health(asked: Asked, task: HealthCheck) -> TaskResult:
    return HealthResult(health=await asked.tools.host.health(task.serials, load=task.load, tell=asked.tell))


async def _provision(asked: Asked, task: UserProvision) -> TaskResult:
    asked.tools.leases.require_free(task.gpus, asked.subject_id)
    return await asked.tools.host.provision(task.login, task.ssh_keys, task.gpus, tell=asked.tell)


async def _revoke(asked: Asked, task: UserRevoke) -> TaskResult:
    return await asked.tools.host.revoke(task.login, tell=asked.tell)


async def _suspend(asked: Asked, task: UserSuspend) -> TaskResult:
    return await asked.tools.host.suspend(task.login, tell=asked.tell)


async def _lease(asked: Asked, task: SlotLease) -> TaskResult:
    return await asked.tools.leases.lease(task)


async def _unlease(asked: Asked, task: SlotUnlease) -> TaskResult:
    return await asked.tools.leases.unlease(task)


async def _drain(asked: Asked, task: Drain) -> TaskResult:
    host = asked.tools.host
    await host.drain(drained=task.drained)
    accounts = await host.accounts()
    told = -1
    while task.drained and task.until_empty and accounts:
        if len(accounts) != told:
            told = len(accounts)
            await asked.tell("waiting", f"{told} accounts left")
        await asyncio.sleep(EMPTY_POLL_SECONDS)
        accounts = await host.accounts()
    return DrainResult(accounts=accounts)


async def _sanitise(asked: Asked, task: Sanitise) -> TaskResult:
    cleanings = await asked.tools.host.sanitise(task.serials, reimage=task.reimage, tell=asked.tell)
    return SanitiseResult(cleanings=cleanings)


async def _update(asked: Asked, task: AgentUpdate) -> TaskResult:
    return await asked.tools.updater.update(asked.task_id, task, asked.tell)


CALLS: dict[type[Task], Callable[[Asked, Any], Awaitable[TaskResult]]] = {
    Inspect: _inspect,
    HealthCheck: _health,
    UserProvision: _provision,
    UserRevoke: _revoke,
    UserSuspend: _suspend,
    SlotLease: _lease,
    SlotUnlease: _unlease,
    Drain: _drain,
    Sanitise: _sanitise,
    AgentUpdate: _update,
}


def lane(task: Task) -> str:
    """Tasks of one lane run one after the other, in the order they were given; lanes run side by side."""
    match task:
        case UserProvision() | UserRevoke() | UserSuspend():
            return f"account {task.login}"
        case HealthCheck() | Sanitise():
            return "gpus"
        case SlotLease() | SlotUnlease():
            return "leases"
        case _:
            return task.TYPE


async def perform(asked: Asked, task: Task) -> TaskResult:
    return await CALLS[type(task)](asked, task)
