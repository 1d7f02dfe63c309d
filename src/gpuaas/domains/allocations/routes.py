"""Operations on allocations: looked at, renewed, given back. Asking for one is in `requests`."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.allocations import (
    AllocationDetail,
    AllocationForceRelease,
    AllocationQuery,
    AllocationRelease,
    AllocationRenew,
    AllocationView,
    PlatformAllocationQuery,
)
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.permissions import P
from gpuaas.domains.allocations import service
from gpuaas.domains.allocations.models import Wanted
from gpuaas.domains.allocations.money.service import money_of
from gpuaas.domains.allocations.requests import service as requests
from gpuaas.domains.allocations.views import view
from gpuaas.infra.http.context import PlatformContext, ProjectContext
from gpuaas.infra.http.listing import before, page
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.infra.sealing import FieldSealer
from gpuaas.kit.ids import AllocationId

_ALL = "/projects/{project_id}/allocations"
_ONE = _ALL + "/{allocation_id}"
_KNOWN = (Code.ALLOCATION_MISSING,)
_ENDING = (*_KNOWN, Code.ALLOCATION_RELEASING, Code.ALLOCATION_ENDED, Code.STATE_MOVE_REFUSED, Code.FLOW_ENDED)


@operation("GET", _ALL, permission=P.ALLOCATIONS_READ, lane=Lane.DEFAULT, tag="allocations")
async def allocation_list(cx: ProjectContext, query: AllocationQuery) -> Page[AllocationView]:
    """List a project's allocations, newest first."""
    rows = await service.allocation_list(
        cx.tx, cx.project_id, _wanted(query), before=before(cx, query), limit=query.limit + 1
    )
    money = await money_of(cx.tx, rows)
    return page(cx, query, rows, lambda row: view(row, money[row.id]))


@operation("GET", _ONE, permission=P.ALLOCATIONS_READ, lane=Lane.DEFAULT, tag="allocations", errors=_KNOWN)
async def allocation_get(cx: ProjectContext, allocation_id: AllocationId) -> AllocationDetail:
    """Show an allocation: its GPUs, how to log in, its place in the queue, what happens next."""
    return await requests.allocation_detail(cx, cx.parts.get(FieldSealer), allocation_id)


@operation(
    "POST",
    _ONE + "/renew",
    permission=P.ALLOCATIONS_MANAGE,
    lane=Lane.DEFAULT,
    audit="allocation.renew",
    tag="allocations",
    errors=(*_KNOWN, Code.ALLOCATION_NOT_ACTIVE, Code.ALLOCATION_LIFETIME),
)
async def allocation_renew(cx: ProjectContext, allocation_id: AllocationId, wanted: AllocationRenew) -> AllocationView:
    """Let an allocation last longer, counted from now; it also counts as used.

    It cannot last beyond `ends_at`."""
    await requests.allocation_extend(cx, allocation_id, hours=wanted.lease_hours)
    return await requests.allocation_view(cx.tx, allocation_id)


@operation(
    "POST",
    _ONE + "/release",
    permission=P.ALLOCATIONS_MANAGE,
    lane=Lane.DEFAULT,
    audit="allocation.release",
    tag="allocations",
    status=202,
    errors=_ENDING,
)
async def allocation_release(
    cx: ProjectContext, allocation_id: AllocationId, wanted: AllocationRelease
) -> AllocationView:
    """Give an allocation back. Its account and data are removed; from now on it is not charged.

    One that waits in the queue leaves it; one that is being made ready is taken back."""
    await service.require_in(cx.tx, cx.project_id, allocation_id)
    by = cx.actor.email or cx.actor.name
    await service.allocation_release(cx.tx, allocation_id, by=by, reason=wanted.reason or "given back")
    return await requests.allocation_view(cx.tx, allocation_id)


@operation("GET", "/allocations", permission=P.PLATFORM_READ, lane=Lane.DEFAULT, tag="allocations")
async def allocation_platform_list(cx: PlatformContext, query: PlatformAllocationQuery) -> Page[AllocationView]:
    """List allocations of all organisations, or of one, or on one node, newest first."""
    wanted = Wanted(
        state=query.state,
        live=query.live,
        sku_id=query.sku_id,
        tag=query.tag,
        org_id=query.org_id,
        node_id=query.node_id,
    )
    rows = await service.allocation_list_all(cx.tx, wanted, before=before(cx, query), limit=query.limit + 1)
    money = await money_of(cx.tx, rows)
    return page(cx, query, rows, lambda row: view(row, money[row.id]))


@operation(
    "POST",
    "/allocations/{allocation_id}/force-release",
    permission=P.PLATFORM_MANAGE,
    lane=Lane.ADMIN,
    audit="allocation.force_release",
    tag="allocations",
    status=202,
    errors=(*_ENDING, Code.FORCE_RELEASE_LATER, Code.FORCE_RELEASE_EXHAUSTED),
)
async def allocation_force_release(
    cx: PlatformContext, allocation_id: AllocationId, wanted: AllocationForceRelease
) -> AllocationView:
    """Release any allocation, with a reason; also one whose release has failed.

    Attempts are counted and backed off. After the last one allowed its nodes are quarantined."""
    by = cx.actor.email or cx.actor.name
    released = await service.allocation_force_release(cx.tx, cx.policy, allocation_id, by=by, reason=wanted.reason)
    cx.org_id_or_none = released.org_id  # its people read in their audit log who ended it
    return await requests.allocation_view(cx.tx, allocation_id)


def _wanted(query: AllocationQuery) -> Wanted:
    return Wanted(state=query.state, live=query.live, sku_id=query.sku_id, tag=query.tag)
