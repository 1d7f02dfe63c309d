"""The verbs of the reality sweep: compare, tell, reclaim.

Always holds: a difference is told of once it was seen in two sweeps, and once more when it is gone; a node that is
silent says nothing, so what was found there stays; reclaiming never touches what a live allocation has."""

from collections.abc import Iterable
from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.allocations import OrphanEnded, OrphanFound
from gpuaas.contracts.http.allocations import OrphanKind
from gpuaas.contracts.tasks.base import Task
from gpuaas.contracts.tasks.catalogue import SlotLease, SlotUnlease, UserProvision, UserRevoke
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.models import Allocation, login_of
from gpuaas.domains.allocations.reality import store
from gpuaas.domains.allocations.reality.compare import Booked, Difference, Observed, born_with, compare
from gpuaas.domains.allocations.reality.models import Orphan, Told
from gpuaas.domains.allocations.states import LIVE, S
from gpuaas.domains.billing.meters import service as meters
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.domains.nodes.tasks import service as tasks
from gpuaas.domains.nodes.tasks.states import OPEN
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import NodeId, OrphanId, TaskId

SWEEP_SECONDS = 60.0
OLD_SECONDS = SWEEP_SECONDS - 10
"""Seen in the sweep before this one, however late either was."""
NODES_AT_ONCE = 500
_Leases = msgspec.json.Decoder(dict[UUID, list[str]])
_Usage = msgspec.json.Decoder(dict[UUID, int])

orphan_list = store.list_open
orphan_show = store.show
orphans_open = store.open_count
orphans_prune = store.prune


async def sweep(tx: Tx, *, lease_seconds: int, after: UUID) -> UUID | None:
    """Compare some nodes that are online; where to go on, None: that was all."""
    told = await store.told(tx, lease_seconds=lease_seconds, after=after, limit=NODES_AT_ONCE)
    found = await store.found(tx, await _differences(tx, told), old_seconds=OLD_SECONDS)
    for orphan in found:
        if orphan.tell:
            tx.emit(
                OrphanFound(orphan_id=orphan.id, node_id=orphan.node_id, kind=orphan.kind, name=orphan.name),
                subject_id=orphan.id,
            )
    _tell_ends(tx, await store.gone(tx, [one.node_id for one in told], [orphan.id for orphan in found]))
    if len(told) < NODES_AT_ONCE:
        _tell_ends(tx, await store.gone_with_node(tx))
        return None
    return told[-1].node_id


async def _differences(tx: Tx, told: list[Told]) -> list[Difference]:
    seen = [
        Observed(
            node_id=one.node_id,
            seen_at=one.seen_at,
            accounts=one.accounts,
            leases=_Leases.decode(one.leases),
            usage=_Usage.decode(one.usage),
        )
        for one in told
    ]
    charged = await meters.costs(tx, sorted({who for node in seen for who in node.usage}))
    books: dict[NodeId, list[Booked]] = {one.node_id: [] for one in told}
    for held in await store.held_there(tx, list(books)):
        books[held.node_id].append(
            Booked(
                allocation_id=held.allocation_id,
                state=held.state,
                changed_at=held.changed_at,
                serials=held.serials,
                charged_seconds=charged[held.allocation_id].seconds if held.allocation_id in charged else None,
            )
        )
    for node in seen:
        there = books[NodeId(node.node_id)]
        there += await _strangers(tx, node, {one.allocation_id for one in there})
    return [difference for node in seen for difference in compare(node, books[NodeId(node.node_id)])]


async def _strangers(tx: Tx, node: Observed, known: set[UUID]) -> list[Booked]:
    """Allocations that hold nothing on the node, and whose accounts or leases it says it has. Usually: none."""
    logins = {login_of(one) for one in known}
    ranges = [born_with(login) for login in node.accounts if login not in logins]
    ranges += [(one, one) for one in node.leases if one not in known]
    wanted = [one for one in ranges if one is not None]
    if not wanted:
        return []
    return [
        Booked(allocation_id=one.allocation_id, state=one.state, changed_at=one.changed_at, serials=[])
        for one in await store.known(tx, wanted)
        if one.allocation_id not in known
    ]


def _tell_ends(tx: Tx, ended: Iterable[Orphan]) -> None:
    for orphan in ended:
        if orphan.told_at is not None:
            tx.emit(OrphanEnded(orphan_id=orphan.id, node_id=orphan.node_id), subject_id=orphan.id)


# reclaim -------------------------------------------------------------------------------------------------------------
async def orphan_reclaim(tx: Tx, orphan_id: UUID) -> OrphanId:
    """Bring the node to what the books say, by a task; the next sweeps show whether it is so. While that task is on its
    way, asking again changes nothing."""
    orphan = await store.lock(tx, orphan_id)
    if orphan.task_id is not None and (await tasks.task_get(tx, TaskId(orphan.task_id))).state in OPEN:
        return orphan.id
    await registry.node_require_active(tx, orphan.node_id)
    order = await _order(tx, orphan)
    task = await tasks.task_create(tx, orphan.node_id, order, subject_id=orphan.allocation_id)
    await store.reclaiming(tx, orphan.id, task.id)
    return orphan.id


async def _order(tx: Tx, orphan: Orphan) -> Task:
    match orphan.kind:
        case OrphanKind.ACCOUNT:
            await _require_dead(tx, orphan)
            return _revoke(orphan.name)
        case OrphanKind.LEASE:
            await _require_dead(tx, orphan)
            return SlotUnlease(allocation_id=UUID(orphan.name))
        case OrphanKind.MISSING_ACCOUNT:
            allocation, serials = await _active_there(tx, orphan)
            return UserProvision(login=login_of(allocation.id), ssh_keys=allocation.ssh_keys, gpus=serials)
        case OrphanKind.MISSING_LEASE:
            allocation, serials = await _active_there(tx, orphan, also=S.STOPPED)
            return SlotLease(allocation_id=allocation.id, serials=serials)
        case OrphanKind.USAGE:
            raise Conflict(
                Code.STATE_MOVE_REFUSED,
                "A count is not reclaimed. Look at the node; where it is right, give back what was charged too much.",
            )


def _revoke(login: str) -> UserRevoke:
    try:
        return msgspec.convert({"login": login}, UserRevoke)
    except msgspec.ValidationError as error:
        raise Conflict(
            Code.STATE_MOVE_REFUSED, f"{login} is no name of an account of ours. Look at the node itself."
        ) from error


async def _require_dead(tx: Tx, orphan: Orphan) -> None:
    """An allocation that has ended never lives again: what is asked for now is right whenever it is done."""
    first_last = born_with(orphan.name) if orphan.kind is OrphanKind.ACCOUNT else None
    if orphan.kind is OrphanKind.LEASE:
        first_last = (UUID(orphan.name), UUID(orphan.name))
    for known in await store.known(tx, [first_last]) if first_last is not None else []:
        named = orphan.name in (login_of(known.allocation_id), str(known.allocation_id))
        if named and known.state in LIVE:
            raise Conflict(
                Code.ORPHAN_IN_USE,
                f"Allocation {known.allocation_id} is {known.state}. Release it; nothing of it is touched here.",
            )


async def _active_there(tx: Tx, orphan: Orphan, also: S = S.ACTIVE) -> tuple[Allocation, list[str]]:
    """The allocation, held until this commit, and what it has on the node. An account is made for none that is stopped:
    that would open it."""
    if orphan.allocation_id is None:
        raise Conflict(Code.ALLOCATION_NOT_ACTIVE, "No allocation is known that should have it.")
    allocation = await allocations.allocation_lock(tx, orphan.allocation_id)
    held = await allocations.holds_of(tx, allocation.id)
    serials = [hold.serial for hold in held if hold.node_id == orphan.node_id]
    if allocation.state not in (S.ACTIVE, also) or not serials:
        raise Conflict(Code.ALLOCATION_NOT_ACTIVE, f"The allocation is {allocation.state}: it needs nothing there.")
    return allocation, serials
