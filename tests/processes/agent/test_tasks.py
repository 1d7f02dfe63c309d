"""Every type of task, done once, however the agent is interrupted."""

import hashlib
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from gpuaas.contracts.simulation import ControlRequest, Do, Point
from gpuaas.contracts.tasks.base import TASK_TYPES, Outcome, Task
from gpuaas.contracts.tasks.catalogue import (
    AgentUpdate,
    Drain,
    HealthCheck,
    Inspect,
    InspectResult,
    Sanitise,
    SlotLease,
    SlotUnlease,
    UserProvision,
    UserRevoke,
    UserSuspend,
)
from gpuaas.infra.hosts.simulated.store import Reality
from gpuaas.kit.ids import new_id
from gpuaas.processes.agent.leases import FILE as LEASES
from gpuaas.processes.agent.leases import Noted
from gpuaas.processes.agent.tasks import CALLS
from tests.processes.agent.conftest import AgentProcess
from tests.support.agent_plane import Plane, until

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio"


def reality(state: Path) -> Reality:
    return msgspec.json.decode((state / "host" / "host.json").read_bytes(), type=Reality)


def noted(state: Path) -> Noted:
    path = state / LEASES
    return msgspec.json.decode(path.read_bytes(), type=Noted) if path.exists() else Noted()


def changes(state: Path) -> tuple[int, int]:
    """How often something really changed: on the host by its diary, and in the agent's own note of leases."""
    return len(reality(state).effects), noted(state).generation


def effects_since(state: Path, before: tuple[int, int]) -> list[str]:
    leases = [f"leases changed {at}" for at in range(before[1] + 1, noted(state).generation + 1)]
    return reality(state).effects[before[0] :] + leases


async def serials(plane: Plane, node_id: UUID) -> list[str]:
    report = await plane.result(node_id, plane.give(node_id, Inspect()))
    return [gpu.serial for gpu in msgspec.json.decode(report.result, type=InspectResult).topology.gpus]


async def prepared(plane: Plane, node_id: UUID, kind: type[Task]) -> tuple[Task, list[str]]:
    """A task of the type on a host where it has something to do, and the effects it must have had in the end."""
    gpus = await serials(plane, node_id)
    account = UserProvision(login="gada", ssh_keys=[KEY], gpus=gpus[:2])
    lease = SlotLease(allocation_id=new_id(), serials=gpus[:2])
    if kind in (UserRevoke, UserSuspend, Sanitise):
        await plane.result(node_id, plane.give(node_id, account))
    if kind is SlotUnlease:
        await plane.result(node_id, plane.give(node_id, lease))
    if kind is Sanitise:
        await plane.result(node_id, plane.give(node_id, UserRevoke(login="gada")))
    artifact = plane.artifacts.setdefault(new_id(), b"a newer agent")
    digest = f"sha256:{hashlib.sha256(artifact).hexdigest()}"
    tasks: dict[type[Task], tuple[Task, list[str]]] = {
        Inspect: (Inspect(), []),
        HealthCheck: (HealthCheck(load=True), []),
        UserProvision: (account, ["account made gada"]),
        UserRevoke: (UserRevoke(login="gada"), ["account removed gada"]),
        UserSuspend: (UserSuspend(login="gada"), ["account suspended gada"]),
        SlotLease: (lease, ["leases changed 1"]),
        SlotUnlease: (SlotUnlease(allocation_id=lease.allocation_id), ["leases changed 2"]),
        Drain: (Drain(), ["drained"]),
        Sanitise: (Sanitise(serials=gpus[:2]), [f"cleaned {serial}" for serial in gpus[:2]]),
        AgentUpdate: (
            AgentUpdate(version="9.9.9", digest=digest, artifact_id=next(iter(plane.artifacts))),
            ["agent became 9.9.9"],
        ),
    }
    return tasks[kind]


def test_every_type_of_task_is_a_verb_of_the_host_or_of_its_agent() -> None:
    assert set(CALLS) == set(TASK_TYPES.values())


@pytest.mark.parametrize("point", list(Point))
@pytest.mark.parametrize("kind", [TASK_TYPES[name] for name in sorted(TASK_TYPES)], ids=lambda kind: str(kind.TYPE))
async def test_a_task_whose_agent_is_killed_has_one_effect_and_one_result(
    plane: Plane, agent: AgentProcess, kind: type[Task], point: Point
) -> None:
    node_id = plane.make_node(agent.state)
    await agent.start()
    task, effects = await prepared(plane, node_id, kind)
    before = changes(agent.state)
    agent.ask(ControlRequest(do=Do.CRASH_MID_TASK, at=point))
    plane.resend = True
    task_id = plane.give(node_id, task)
    await until(lambda: agent.ended, 20, "the crash")
    assert not plane.nodes[node_id].results[task_id]

    await agent.start()
    report = await plane.result(node_id, task_id)

    assert report.outcome is Outcome.DONE, report.reason
    assert effects_since(agent.state, before) == effects
    msgspec.json.decode(report.result, type=kind.RESULT)
    claims = len(plane.nodes[node_id].claims)
    await until(lambda: len(plane.nodes[node_id].claims) > claims + 1, 10, "another claim")
    assert len(plane.nodes[node_id].results[task_id]) == 1
    assert effects_since(agent.state, before) == effects
