"""Operations on orphans: what agents observe and the books do not say, or the other way round."""

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.allocations import OrphanReclaim, OrphanView
from gpuaas.contracts.http.base import Page, PageQuery
from gpuaas.contracts.permissions import P
from gpuaas.domains.allocations.reality import service
from gpuaas.domains.allocations.reality.models import ShownOrphan
from gpuaas.infra.http.context import PlatformContext
from gpuaas.infra.http.listing import before, page
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import OrphanId


@operation("GET", "/admin/orphans", permission=P.NODES_READ, lane=Lane.DEFAULT, tag="orphans")
async def orphan_list(cx: PlatformContext, query: PageQuery) -> Page[OrphanView]:
    """List what differs between nodes and books now, the newest first.

    One that was first seen less than a minute ago may be on its way to where it belongs."""
    rows = await service.orphan_list(cx.tx, before=before(cx, query), limit=query.limit + 1)
    return page(cx, query, rows, _view)


@operation(
    "POST",
    "/admin/orphans/{orphan_id}/reclaim",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="orphan.reclaim",
    status=202,
    tag="orphans",
    errors=(
        Code.ORPHAN_MISSING,
        Code.ORPHAN_IN_USE,
        Code.ALLOCATION_MISSING,
        Code.ALLOCATION_NOT_ACTIVE,
        Code.NODE_MISSING,
        Code.STATE_MOVE_REFUSED,
        Code.TASK_QUEUE_FULL,
    ),
)
async def orphan_reclaim(cx: PlatformContext, orphan_id: OrphanId, wanted: OrphanReclaim) -> OrphanView:
    """Bring the node to what the books say.

    Takes away the account or the lease nobody has, or makes the one an active allocation lacks."""
    return _view(await service.orphan_show(cx.tx, await service.orphan_reclaim(cx.tx, orphan_id)))


def _view(row: ShownOrphan) -> OrphanView:
    return msgspec.convert(row, OrphanView, from_attributes=True)
