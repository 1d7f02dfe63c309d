"""Operations on timelines: read, or watched live as server-sent events."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.allocations import TaskOnNode, TimelineView
from gpuaas.contracts.http.base import Page, PageQuery
from gpuaas.contracts.permissions import P
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.states import LIVE
from gpuaas.domains.allocations.timeline import service
from gpuaas.domains.allocations.timeline.models import NodeTask
from gpuaas.domains.allocations.views import timeline_view
from gpuaas.domains.allocations.watching.service import Watchers
from gpuaas.infra.http.context import ProjectContext
from gpuaas.infra.http.listing import after, page
from gpuaas.infra.http.operation import Lane, Stream, operation
from gpuaas.infra.postgres.tx import Sight, Tx
from gpuaas.kit import clock
from gpuaas.kit.ids import AllocationId

_PATH = "/projects/{project_id}/allocations/{allocation_id}"
_KNOWN = (Code.ALLOCATION_MISSING,)
MAX_MOMENTS = 1000
LOOK_SECONDS = 1.0
QUIET_SECONDS = 15.0
LONGEST_SECONDS = 300.0


@operation(
    "GET", _PATH + "/timeline", permission=P.ALLOCATIONS_READ, lane=Lane.DEFAULT, tag="allocations", errors=_KNOWN
)
async def allocation_timeline(cx: ProjectContext, allocation_id: AllocationId) -> TimelineView:
    """Show what happened to an allocation, in order, with how long each phase took."""
    return await _timeline(cx.tx, cx.project_id, allocation_id)


@operation(
    "GET",
    _PATH + "/timeline/live",
    permission=P.ALLOCATIONS_READ,
    lane=Lane.DEFAULT,
    tag="allocations",
    transaction=False,
    produces="text/event-stream",
    errors=(*_KNOWN, Code.OVERLOADED),
)
async def allocation_timeline_live(cx: ProjectContext, allocation_id: AllocationId) -> Stream:
    """Watch an allocation: its timeline as server-sent events, a `timeline` with all of it whenever it has changed.

    It ends with `end` when the allocation has ended, and after five minutes at the latest: connect again."""
    async with cx.db.read(Sight(cx.org_id)) as tx:
        await _timeline(tx, cx.project_id, allocation_id)
    return Stream(_live(cx, allocation_id), "text/event-stream", "")


@operation("GET", _PATH + "/tasks", permission=P.ALLOCATIONS_READ, lane=Lane.DEFAULT, tag="allocations", errors=_KNOWN)
async def allocation_task_list(cx: ProjectContext, allocation_id: AllocationId, query: PageQuery) -> Page[TaskOnNode]:
    """List what was done on the allocation's nodes on our order, with what each task said."""
    await allocations.require_in(cx.tx, cx.project_id, allocation_id)
    rows = await service.tasks(cx.tx, allocation_id, after=after(cx, query), limit=query.limit + 1)
    return page(cx, query, rows, _task)


async def _timeline(tx: Tx, project_id: UUID, allocation_id: UUID) -> TimelineView:
    allocation = await allocations.require_in(tx, project_id, allocation_id)
    moments = await service.moments(tx, allocation_id, limit=MAX_MOMENTS)
    return TimelineView(state=allocation.state, moments=timeline_view(moments))


async def _live(cx: ProjectContext, allocation_id: AllocationId) -> AsyncIterator[bytes]:
    db, org_id, project_id = cx.db, cx.org_id, cx.project_id
    last, ends, spoke = b"", clock.monotonic() + LONGEST_SECONDS, clock.monotonic()
    async with cx.parts.get(Watchers).watch(allocation_id, cx.actor.id) as changed:
        while clock.monotonic() < ends:
            changed.clear()
            async with db.read(Sight(org_id)) as tx:
                found = await _timeline(tx, project_id, allocation_id)
            body = msgspec.json.encode(found)
            if body != last:
                last, spoke = body, clock.monotonic()
                yield _event("timeline", body)
            if found.state not in LIVE:
                yield _event("end", b"{}")
                return
            if clock.monotonic() - spoke > QUIET_SECONDS:
                spoke = clock.monotonic()
                yield b": still here\n\n"
            try:
                await asyncio.wait_for(changed.wait(), LOOK_SECONDS)
            except TimeoutError:
                continue


def _event(name: str, body: bytes) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + body + b"\n\n"


def _task(found: NodeTask) -> TaskOnNode:
    return TaskOnNode(**msgspec.structs.asdict(found))
