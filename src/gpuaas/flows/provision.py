"""allocation.provision: from reserved slots to GPUs that are proven usable.

    reserve → hold → lease → account → prove → activate

Nothing is active, and nothing charged, before exactly these GPUs have passed a health check. Whatever fails, is killed
or is cancelled on the way: the account goes, what it could have touched is cleaned, the lease goes, the deposit goes
back, the slots are free or in quarantine, and the allocation says why."""

from datetime import timedelta

import msgspec

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.contracts.http.flows import FlowKind
from gpuaas.contracts.tasks.base import Task
from gpuaas.contracts.tasks.catalogue import (
    AccountResult,
    HealthCheck,
    HealthResult,
    LeaseResult,
    SlotLease,
    UserProvision,
)
from gpuaas.contracts.tasks.topology import HostHealth
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.connections.service import accounts_keep
from gpuaas.domains.allocations.models import Account, Allocation, Hold, Proof, login_of
from gpuaas.domains.allocations.money import service as money
from gpuaas.domains.allocations.states import HoldState
from gpuaas.domains.allocations.timeline.service import timeline_add
from gpuaas.domains.nodes.health import judgement
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.domains.nodes.registry.sellability import why_node_not
from gpuaas.flows import cleaning
from gpuaas.flows.nodes import ask, asked_for, asked_nodes, forget, refused_by
from gpuaas.flows.story import Flow, Scene, Step, StepFailed, Wait, nothing
from gpuaas.infra.sealing import FieldSealer
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import NodeId
from gpuaas.ports.policy import PolicyReader

MINUTE = timedelta(minutes=1)
_HOUR = 3600


# reserve -------------------------------------------------------------------------------------------------------------
async def reserve(scene: Scene) -> None:
    """The slots were held with the request; here they are only looked at once more."""
    allocation, held = await _read(scene)
    if allocation.state is not AllocationState.PROVISIONING:
        raise StepFailed("state", f"the allocation is {allocation.state}")
    if len(held) != allocation.gpus:
        raise StepFailed("capacity_lost", "its slots are not held any more")
    policy = scene.parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    nodes = await registry.several(scene.tx, list(cleaning.by_node(held)), lease=policy.number("nodes.lease_seconds"))
    for node in nodes.values():
        # Cordoned since is no reason: what was promised is kept.
        reasons = why_node_not(msgspec.structs.replace(node, cordoned=False))
        if reasons:
            raise StepFailed("node_not_ready", "; ".join(reasons))


async def unreserve(scene: Scene) -> None:
    """Give the slots back: unused, clean, or in quarantine where an account was on them that left no proof."""
    allocation, held = await _read(scene)
    if allocation.state is AllocationState.ACTIVE:
        return  # it is its tenant's: giving it back is another story
    if held:
        unproven = HoldState.QUARANTINED if asked_for(scene, "account") else HoldState.UNUSED
        clean, kept = set(scene.memo.get("clean", [])), await refused_by(scene, "lease")
        ends = {hold.id: HoldState.CLEAN if hold.serial in clean else unproven for hold in held}
        ends |= {hold.id: HoldState.QUARANTINED for hold in held if hold.node_id in kept}
        for reason, of in (
            # Its host has it for somebody else, or does not have it: whoever came next would be refused as well.
            ("lease_refused", [hold for hold in held if hold.node_id in kept]),
            ("not_proven_clean", [hold for hold in held if ends[hold.id] is HoldState.QUARANTINED]),
        ):
            detail = f"allocation {allocation.id} failed: {scene.run.error}"
            await allocations.quarantine(scene.tx, of, reason=reason, detail=detail)
        await allocations.holds_end(scene.tx, allocation, ends)
    if allocation.state is AllocationState.PROVISIONING:
        code = scene.run.error_code or "failed"
        await allocations.allocation_fail(scene.tx, allocation, code=code, reason=cleaning.told(scene.run))


# hold ----------------------------------------------------------------------------------------------------------------
async def hold(scene: Scene) -> None:
    """Set money aside before anything is done on a node for it."""
    allocation, _ = await _read(scene)
    policy = scene.parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    try:
        await money.deposit_take(scene.tx, policy, allocation)
    except Conflict as refused:
        raise StepFailed(refused.code, refused.message) from refused


async def unhold(scene: Scene) -> None:
    allocation, _ = await _read(scene)
    if allocation.state is not AllocationState.ACTIVE:
        await money.deposit_void(scene.tx, allocation)


# lease ---------------------------------------------------------------------------------------------------------------
async def lease(scene: Scene) -> Wait | None:
    allocation, held = await _read(scene)
    orders: dict[NodeId, Task] = {
        node_id: SlotLease(allocation_id=allocation.id, serials=serials)
        for node_id, serials in cleaning.by_node(held).items()
    }
    answers = await ask(scene, "lease", orders)
    if isinstance(answers, Wait):
        return answers
    for node_id, answer in answers.items():
        if sorted(answer.of(LeaseResult).serials) != cleaning.by_node(held)[node_id]:
            raise StepFailed("lease_differs", "the node leased other GPUs than it was asked for")
    await timeline_add(scene.tx, allocation, "leased", "its nodes keep the GPUs for it")
    return None


async def unlease(scene: Scene) -> Wait | None:
    await forget(scene, "lease")
    if not asked_for(scene, "lease"):
        return None
    allocation, held = await _read(scene)
    if allocation.state is AllocationState.ACTIVE:
        return None
    touched = held if asked_for(scene, "account") else []
    cleaned = await cleaning.clean(scene, allocation, touched)
    if isinstance(cleaned, Wait):
        return cleaned
    waits = await cleaning.unlease(scene, allocation, asked_nodes(scene, "lease"))
    if touched and not waits:
        scene.memo["clean"] = await cleaning.certify(scene, allocation, touched, cleaned)
    return waits


# account -------------------------------------------------------------------------------------------------------------
async def account(scene: Scene) -> Wait | None:
    allocation, held = await _read(scene)
    login = login_of(allocation.id)
    orders: dict[NodeId, Task] = {
        node_id: UserProvision(login=login, ssh_keys=allocation.ssh_keys, gpus=serials)
        for node_id, serials in cleaning.by_node(held).items()
    }
    # Once: a host that fails is not tried again by the same tenant, and two failures in a row take it out.
    answers = await ask(scene, "account", orders, tries=1)
    if isinstance(answers, Wait):
        return answers
    nodes = await registry.several(scene.tx, list(answers), lease=registry.ANY_LEASE)
    accounts = [
        Account(
            node_id=node_id,
            login=login,
            host=made.address or nodes[node_id].address or nodes[node_id].name,
            port=made.port,
            host_keys=made.host_keys,
        )
        for node_id, made in ((node_id, answer.of(AccountResult)) for node_id, answer in answers.items())
    ]
    await accounts_keep(scene.tx, scene.parts.get(FieldSealer), allocation, accounts)
    await timeline_add(scene.tx, allocation, "account", f"login {login}, SSH keys: {len(allocation.ssh_keys)}")
    return None


async def unaccount(scene: Scene) -> Wait | None:
    await forget(scene, "account")
    if not asked_for(scene, "account"):
        return None
    allocation, _ = await _read(scene)
    if allocation.state is AllocationState.ACTIVE:
        return None
    return await cleaning.revoke(scene, allocation, asked_nodes(scene, "account"))


# prove ---------------------------------------------------------------------------------------------------------------
async def prove(scene: Scene) -> Wait | None:
    """Exactly these GPUs, all of them, healthy: anything else is no proof."""
    allocation, held = await _read(scene)
    wanted = cleaning.by_node(held)
    orders: dict[NodeId, Task] = {node_id: HealthCheck(serials=serials) for node_id, serials in wanted.items()}
    answers = await ask(scene, "prove", orders, tries=2)
    if isinstance(answers, Wait):
        return answers
    for node_id, answer in answers.items():
        found = why_no_proof(wanted[node_id], answer.of(HealthResult).health)
        if found:
            raise StepFailed("health_proof_failed", found)
        await allocations.proof_add(
            scene.tx,
            Proof(
                org_id=allocation.org_id,
                allocation_id=allocation.id,
                node_id=node_id,
                task_id=answer.task.id,
                serials=wanted[node_id],
                passed=True,
                detail="",
            ),
        )
    await timeline_add(scene.tx, allocation, "proven", f"GPUs that passed their health check: {allocation.gpus}")
    return None


async def unprove(scene: Scene) -> None:
    await forget(scene, "prove")


def why_no_proof(serials: list[str], health: HostHealth) -> str:
    """Empty: it is one."""
    found = {gpu.serial: gpu for gpu in judgement.gpu_verdicts(health.gpus)}
    if set(found) != set(serials):
        return f"the node checked other GPUs: {', '.join(sorted(set(found) ^ set(serials)))[:200]}"
    said = {serial: judgement.gpu_verdict(gpu) for serial, gpu in found.items()}
    sick = [f"GPU {serial}: {why}" for serial, (well, why) in said.items() if not well]
    if not health.healthy or judgement.failures(health.checks):
        sick.append("the host: " + (judgement.failures(health.checks) or "the agent says so"))
    if any(fault.serial in found for fault in health.faults):
        sick.append("the driver told of faults")
    return "; ".join(sick)[:400]


# activate ------------------------------------------------------------------------------------------------------------
async def activate(scene: Scene) -> None:
    allocation, _ = await _read(scene)
    if allocation.state is AllocationState.ACTIVE:
        return
    policy = scene.parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    hours = policy.number("allocations.lifetime_hours_max", allocation.org_id, allocation.project_id)
    await allocations.allocation_activate(scene.tx, allocation, lifetime_seconds=hours * _HOUR)


async def surrender(scene: Scene) -> None:
    """Something of it may still be on a node that does not answer: its slots are in quarantine, and it has failed."""
    allocation, held = await _read(scene)
    if allocation.state is AllocationState.ACTIVE:
        return
    detail = f"allocation {allocation.id} could not be taken back: {scene.run.error}"
    await allocations.quarantine(scene.tx, held, reason="not_proven_clean", detail=detail)
    await allocations.holds_end(scene.tx, allocation, {hold.id: HoldState.QUARANTINED for hold in held})
    if allocation.state is AllocationState.PROVISIONING:
        code = scene.run.error_code or "failed"
        await allocations.allocation_fail(scene.tx, allocation, code=code, reason=cleaning.told(scene.run))


async def _read(scene: Scene) -> tuple[Allocation, list[Hold]]:
    """The row is held until the step commits, so that whoever releases it comes before or after."""
    allocation = await allocations.allocation_lock(scene.tx, scene.subject_id)
    return allocation, await allocations.holds_of(scene.tx, allocation.id)


PROVISION = Flow(
    kind=FlowKind.ALLOCATION_PROVISION,
    version=2,
    steps=(
        Step("reserve", reserve, unreserve, MINUTE, attempts=3, undo_deadline=2 * MINUTE),
        Step("hold", hold, unhold, MINUTE, undo_deadline=2 * MINUTE),
        Step("lease", lease, unlease, 2 * MINUTE, undo_deadline=14 * MINUTE),
        Step("account", account, unaccount, 3 * MINUTE, undo_deadline=6 * MINUTE),
        Step("prove", prove, unprove, 6 * MINUTE, undo_deadline=2 * MINUTE),
        Step("activate", activate, nothing, MINUTE),
    ),
    surrender=surrender,
)
