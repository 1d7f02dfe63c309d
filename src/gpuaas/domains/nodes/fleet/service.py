"""The fleet as operators look at it: slots with why each can or cannot be sold, and a summary. Derived on each look."""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from gpuaas.contracts.http.nodes import FleetHealth, NodeSlotView, Quarantine, SlotListQuery, Trouble
from gpuaas.domains.inventory import service as inventory
from gpuaas.domains.inventory.models import Slot
from gpuaas.domains.nodes.health import service as health
from gpuaas.domains.nodes.health.models import SlotQuarantineRow
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.domains.nodes.registry.models import GpuCount, Node, Wanted
from gpuaas.domains.nodes.registry.sellability import why_node_not, why_slot_not
from gpuaas.domains.nodes.tasks import service as tasks
from gpuaas.infra.postgres.tx import NIL, Tx
from gpuaas.kit.ids import SkuId

MAX_TROUBLES = 200
NODES_AT_ONCE = 500


async def slot_list(tx: Tx, query: SlotListQuery, *, lease: int, after: UUID) -> tuple[list[NodeSlotView], UUID | None]:
    """Whole nodes to a page, so that siblings are seen together; and the last node, when there may be more."""
    if query.node_id is not None:
        views = await slot_views(tx, [await registry.node_get(tx, query.node_id, lease=lease)])
        return _wanted(views, query), None
    items: list[NodeSlotView] = []
    while len(items) < query.limit:
        nodes = await registry.list_all(tx, Wanted(), lease=lease, after=after, limit=max(1, query.limit // 8))
        if not nodes:
            return items, None
        items += _wanted(await slot_views(tx, nodes), query)
        after = nodes[-1].id
    return items, after


async def slot_view(tx: Tx, slot: Slot, *, lease: int) -> NodeSlotView:
    node = await registry.node_get(tx, slot.node_id, lease=lease)
    return next(view for view in await slot_views(tx, [node]) if view.id == slot.id)


async def slot_views(tx: Tx, nodes: Sequence[Node]) -> list[NodeSlotView]:
    by_id = {node.id: node for node in nodes}
    slots = await inventory.slots_of(tx, list(by_id))
    open_ones = await health.open_of_slots(tx, [slot.id for slot in slots])
    strikes = await health.strikes(tx, [slot.serial for slot in slots])
    there = {(slot.node_id, slot.address): slot.serial for slot in slots if slot.present}
    return [
        _slot_view(
            by_id[slot.node_id],
            slot,
            open_ones.get(slot.id),
            strikes=strikes.get(slot.serial, 0),
            replaced_by="" if slot.present else there.get((slot.node_id, slot.address), ""),
        )
        for slot in slots
    ]


async def gpu_counts(tx: Tx, nodes: Sequence[Node]) -> dict[UUID, GpuCount]:
    """Of each node, counted now."""
    slots = await inventory.slots_of(tx, [node.id for node in nodes])
    held = await health.open_of_slots(tx, [slot.id for slot in slots])
    usable = Counter(slot.node_id for slot in slots if slot.present and slot.id not in held)
    skus = {sku_id: await inventory.sku_get(tx, SkuId(sku_id)) for sku_id in {node.sku_id for node in nodes}}
    return {node.id: GpuCount(usable[node.id], skus[node.sku_id].gpus_per_node) for node in nodes}


async def fleet_health(tx: Tx, *, lease: int) -> FleetHealth:
    states: Counter[str] = Counter()
    liveness: Counter[str] = Counter()
    for state, alive, count in await registry.counts(tx, lease=lease):
        states[state] += count
        liveness[alive] += count
    slots = sellable = quarantined = 0
    troubles: list[Trouble] = []
    last: UUID = NIL
    while True:
        nodes = await registry.list_all(tx, Wanted(), lease=lease, after=last, limit=NODES_AT_ONCE)
        if not nodes:
            break
        views = [view for view in await slot_views(tx, nodes) if not view.replaced_by]
        slots, sellable = slots + len(views), sellable + sum(view.sellable for view in views)
        quarantined += sum(view.quarantine is not None for view in views)
        troubles += _troubles(nodes, views)
        last = nodes[-1].id
    troubles.sort(key=lambda trouble: not any("quarantine" in reason for reason in trouble.why_not))
    return FleetHealth(
        ok=not troubles,
        nodes=states.total(),
        by_state=dict(states),
        by_liveness=dict(liveness),
        slots=slots,
        slots_sellable=sellable,
        slots_quarantined=quarantined,
        tasks_open=await tasks.open_count(tx),
        troubles=troubles[:MAX_TROUBLES],
    )


def _troubles(nodes: Sequence[Node], views: Sequence[NodeSlotView]) -> list[Trouble]:
    """What is the matter with whole nodes, and with single GPUs of nodes that are well."""
    reasons = {node.id: why_node_not(node) for node in nodes}
    found = [
        Trouble(node_id=node.id, node_name=node.name, slot_id=None, serial="", why_not=reasons[node.id])
        for node in nodes
        if reasons[node.id]
    ]
    for view in views:
        own = [reason for reason in view.why_not if reason not in reasons[view.node_id]]  # type: ignore[index] # an id of ours
        if own:
            found.append(
                Trouble(
                    node_id=view.node_id, node_name=view.node_name, slot_id=view.id, serial=view.serial, why_not=own
                )
            )
    return found


def _slot_view(
    node: Node, slot: Slot, held: SlotQuarantineRow | None, *, strikes: int, replaced_by: str
) -> NodeSlotView:
    why_not = why_slot_not(
        node, present=slot.present, quarantine_reason=held.reason if held else None, replaced_by=replaced_by
    )
    return NodeSlotView(
        id=slot.id,
        node_id=slot.node_id,
        node_name=node.name,
        index=slot.gpu_index,
        serial=slot.serial,
        model=slot.model,
        memory_bytes=slot.memory_bytes,
        numa=slot.numa,
        address=slot.address,
        nvme=slot.nvme_address,
        fabric=slot.fabric_address,
        present=slot.present,
        replaced_by=replaced_by,
        sellable=not why_not,
        why_not=why_not,
        strikes=strikes,
        quarantine=Quarantine(reason=held.reason, detail=held.detail, since=held.since) if held else None,
    )


def _wanted(views: list[NodeSlotView], query: SlotListQuery) -> list[NodeSlotView]:
    return [view for view in views if query.sellable is None or view.sellable is query.sellable]
