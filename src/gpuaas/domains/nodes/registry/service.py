"""The verbs of nodes: create, enrol, cordon, drain, disable, look again, remove.

Always holds: a node is in service only after its agent has enrolled; nobody is thrown off a node by disabling or
removing it; who is on it is what its agent observes, and who is on his way is what is held of it."""

from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import UNSET

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.provisioning import NodeEnrolled, NodeQuarantined, NodeRemoved, NodeReturned
from gpuaas.contracts.http.nodes import Liveness, NodeCreate, NodeState, NodeUpdate
from gpuaas.contracts.tasks.catalogue import Drain, HealthCheck, Inspect
from gpuaas.contracts.tasks.topology import Topology
from gpuaas.domains.inventory import service as inventory
from gpuaas.domains.nodes.registry import store
from gpuaas.domains.nodes.registry.models import NewNode, Node
from gpuaas.domains.nodes.registry.sellability import occupied, of_the_node
from gpuaas.domains.nodes.tasks import service as tasks
from gpuaas.domains.nodes.tasks.hinting import subject_of
from gpuaas.domains.nodes.tasks.models import TaskRow
from gpuaas.domains.pki import service as pki
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Conflict, Detail, Refused
from gpuaas.kit.ids import NodeId, SkuId, new_id

MAX_DETAIL = 1000
ANY_LEASE = 1_000_000
"""Where it is of no matter whether the node speaks."""
_USERS_TASKS = "user."
_IN_USE = "Somebody uses the node. Drain it first."

list_all = store.list_all
several = store.several
counts = store.counts
node_checked = store.checked
nodes_refused = store.out_of_service


async def node_get(tx: Tx, node_id: UUID, *, lease: int = ANY_LEASE) -> Node:
    return await store.get(tx, node_id, lease=lease)


async def node_create(tx: Tx, wanted: NodeCreate) -> NodeId:
    node_id = NodeId(new_id())
    sku = await inventory.sku_get(tx, SkuId(wanted.sku_id))
    if sku.region != wanted.region:
        raise Refused(
            Code.REQUEST_INVALID,
            "A node is in the region its SKU is sold in.",
            details=[Detail("region", f"the SKU is sold in {sku.region}")],
        )
    await store.insert(
        tx,
        NewNode(
            id=node_id,
            name=wanted.name,
            region=wanted.region,
            sku_id=wanted.sku_id,
            address=wanted.address,
            labels=wanted.labels,
            tags=wanted.tags,
        ),
    )
    await tasks.sequence_start(tx, node_id)
    return node_id


async def node_update(tx: Tx, node_id: UUID, wanted: NodeUpdate) -> None:
    await store.update(
        tx,
        node_id,
        labels=None if wanted.labels is UNSET else wanted.labels,
        tags=None if wanted.tags is UNSET else wanted.tags,
        address=None if wanted.address is UNSET else wanted.address,
    )


async def node_enrolled(tx: Tx, node_id: UUID, agent_version: str) -> Node:
    """Its agent has a certificate now. What the last one was doing is over; the hardware is looked at afresh."""
    node = await store.lock(tx, node_id, lease=ANY_LEASE)
    if not await store.enrolled(tx, node_id):
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The node is {node.state}: it cannot be enrolled now.")
    await tasks.tasks_restart(tx, node_id)
    await _look(tx, node_id)
    tx.emit(
        NodeEnrolled(node_id=node_id, agent_version=agent_version, again=node.state is not NodeState.ENROLLING),
        subject_id=node_id,
    )
    return node


async def node_look_again(tx: Tx, node_id: UUID, *, forget: bool = False) -> None:
    """Unless it is about to be done anyway. `forget`: nothing is sold by what was found before."""
    node = await store.lock(tx, node_id, lease=ANY_LEASE)
    if node.state is not NodeState.ACTIVE:
        return
    if forget:
        await store.forget(tx, node_id)
    if forget or not await tasks.open_with_prefix(tx, node_id, Inspect.TYPE):
        await _look(tx, node_id)


async def node_inspect(tx: Tx, node_id: UUID) -> TaskRow:
    await node_require_active(tx, node_id)
    return await tasks.task_create(tx, node_id, Inspect())


async def node_check(tx: Tx, node_id: UUID, *, load: bool) -> TaskRow:
    node = await node_require_active(tx, node_id)
    if load and await node_in_use(tx, node):
        raise Conflict(Code.NODE_IN_USE, "Somebody uses the node: its GPUs are not loaded now.")
    return await tasks.task_create(tx, node_id, HealthCheck(load=load))


async def node_cordon(tx: Tx, node_id: UUID, *, cordoned: bool) -> None:
    """Nothing new is placed on a cordoned node; what is there stays."""
    await store.desire(tx, node_id, cordoned=cordoned)


async def node_drain(tx: Tx, node_id: UUID, *, drained: bool) -> None:
    """A drained node lets nobody new in. The agent is told at once, and by every heartbeat."""
    await store.desire(tx, node_id, drained=drained)
    node = await store.get(tx, node_id, lease=ANY_LEASE)
    if node.state is NodeState.ACTIVE:
        await tasks.task_create(tx, node_id, Drain(drained=drained))


async def node_disable(tx: Tx, node_id: UUID) -> None:
    await _free(tx, node_id)
    await store.move(tx, node_id, to=NodeState.DISABLED)
    tx.hint(subject_of(node_id))  # a claim that waits ends now


async def node_enable(tx: Tx, node_id: UUID) -> None:
    """Whatever was done to it meanwhile: what was found before does not count."""
    await store.lock(tx, node_id, lease=ANY_LEASE)
    await store.move(tx, node_id, to=NodeState.ACTIVE)
    await store.forget(tx, node_id)
    await _look(tx, node_id)


async def node_remove(tx: Tx, node_id: UUID) -> None:
    """Nobody may be on it. Of one that is lost nobody can say more than that its tenants have left: it can go, and with
    it what could never be proven gone."""
    node = await store.lock(tx, node_id, lease=ANY_LEASE)
    if node.liveness is not Liveness.LOST:
        await _free(tx, node_id)
    elif await inventory.any_in_use(tx, NodeId(node_id)):
        raise Conflict(Code.NODE_IN_USE, "Somebody holds GPUs of the node. Release them first.")
    await store.move(tx, node_id, to=NodeState.REMOVED)
    tx.hint(subject_of(node_id))
    await pki.revoke_node(tx, node_id, "the node was removed")
    tx.emit(NodeRemoved(node_id=node_id), subject_id=node_id)


async def node_reenrol(tx: Tx, node_id: UUID) -> None:
    """A new token; until it is used, the node has no certificate that works."""
    node = await store.lock(tx, node_id, lease=ANY_LEASE)
    if node.state is NodeState.DISABLED:
        raise Conflict(Code.STATE_MOVE_REFUSED, "The node is disabled. Enable it first.")
    await pki.revoke_node(tx, node_id, "the node is to be enrolled again")


async def node_inspected(tx: Tx, node_id: UUID, topology: Topology, at: datetime) -> bool:
    """What was found, as slots, and how it differs from what its SKU promises. False: a later look was noted before."""
    node = await store.lock(tx, node_id, lease=ANY_LEASE)
    if node.inspected_at is not None and node.inspected_at >= at:
        return False
    before = {slot.serial for slot in await inventory.slots_of(tx, [NodeId(node_id)])}
    found = await inventory.slots_observed(tx, NodeId(node_id), SkuId(node.sku_id), topology)
    sku = await inventory.sku_get(tx, SkuId(node.sku_id))
    differences = of_the_node(found, sku.gpus_per_node, before, {gpu.serial for gpu in topology.gpus})
    await store.inspected(tx, node_id, differences, msgspec.json.encode(topology).decode(), at)
    return True


async def node_quarantine(tx: Tx, node_id: UUID, reason: str, detail: str) -> bool:
    """Nothing on it is sold until a check under load, asked for after this, has passed. Says whether it was not in
    quarantine before."""
    if not await store.quarantine(tx, node_id, reason, detail, longest=MAX_DETAIL):
        return False
    tx.emit(NodeQuarantined(node_id=node_id, reason=reason), subject_id=node_id)
    return True


async def node_give_back(tx: Tx, node_id: UUID, *, asked_at: datetime) -> bool:
    """Out of quarantine: for the one who has seen a check pass that was asked for at this moment."""
    if not await store.give_back(tx, node_id, asked_at=asked_at):
        return False
    tx.emit(NodeReturned(node_id=node_id), subject_id=node_id)
    return True


async def _look(tx: Tx, node_id: UUID) -> None:
    await tasks.task_create(tx, node_id, Inspect())
    await tasks.task_create(tx, node_id, HealthCheck())


async def node_require_active(tx: Tx, node_id: UUID) -> Node:
    """The node, if it is in service."""
    node = await store.get(tx, node_id, lease=ANY_LEASE)
    if node.state is not NodeState.ACTIVE:
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The node is {node.state}: it is not asked to do anything.")
    return node


async def node_in_use(tx: Tx, node: Node) -> bool:
    """Somebody is on it, as its agent observes it, or holds one of its GPUs. Whoever holds the node's row is told for
    as long as he holds it: nothing on it is placed meanwhile."""
    return occupied(node) or await inventory.any_held(tx, node.id)


async def _free(tx: Tx, node_id: UUID) -> None:
    """Nobody is on it, and nobody is on his way."""
    node = await store.lock(tx, node_id, lease=ANY_LEASE)
    if await node_in_use(tx, node) or await tasks.open_with_prefix(tx, node_id, _USERS_TASKS):
        raise Conflict(Code.NODE_IN_USE, _IN_USE)
