"""Operations on slots as they stand, and on the fleet as a whole."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.nodes import FleetHealth, NodeSlotView, SlotListQuery, SlotQuarantine
from gpuaas.contracts.permissions import P
from gpuaas.domains.nodes.fleet import service
from gpuaas.domains.nodes.health import service as health
from gpuaas.infra.http.context import PlatformContext
from gpuaas.infra.http.listing import after
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import SlotId


@operation("GET", "/slots", permission=P.NODES_READ, lane=Lane.DEFAULT, tag="slots", errors=(Code.NODE_MISSING,))
async def slot_list(cx: PlatformContext, query: SlotListQuery) -> Page[NodeSlotView]:
    """List slots, one per GPU, each with whether it can be sold now and, if not, why."""
    items, last = await service.slot_list(cx.tx, query, lease=_lease(cx), after=after(cx, query))
    return Page(items=items, next_cursor=None if last is None else cx.next_cursor(last))


@operation(
    "POST",
    "/slots/{slot_id}/quarantine",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="slot.quarantine",
    tag="slots",
    errors=(Code.SLOT_MISSING, Code.SLOT_QUARANTINED),
)
async def slot_quarantine(cx: PlatformContext, slot_id: SlotId, wanted: SlotQuarantine) -> NodeSlotView:
    """Take a GPU out of sale. Its siblings stay; whoever is on it stays, too."""
    slot = await health.slot_quarantine(cx.tx, slot_id, wanted.reason)
    return await service.slot_view(cx.tx, slot, lease=_lease(cx))


@operation("GET", "/ops/fleet-health", permission=P.NODES_READ, lane=Lane.DEFAULT, tag="ops")
async def fleet_health(cx: PlatformContext) -> FleetHealth:
    """Tell how the fleet is: how many nodes and slots, how many can be sold, and what is the matter with the others."""
    return await service.fleet_health(cx.tx, lease=_lease(cx))


def _lease(cx: PlatformContext) -> int:
    return cx.policy.number("nodes.lease_seconds")
