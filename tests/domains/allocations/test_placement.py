"""Placement on the real database: who gets which GPUs, at once, beside sick nodes; and what is said when none fit."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuaas.domains.allocations.models import Allocation, Placed
from gpuaas.domains.allocations.placement import service
from gpuaas.domains.allocations.placement.models import Ask, Reason
from gpuaas.domains.inventory.models import Sku
from gpuaas.infra.postgres.database import Database
from tests.support.servers import DatabaseUrls
from tests.support.slot_yard import EVERYTHING, LEASE, Tenant, Yard, ask_of, yard_of


class TakenBack(Exception):
    """A transaction ends without its commit."""


@pytest.fixture(scope="module")
async def yard(db: Database, database: DatabaseUrls) -> AsyncIterator[Yard]:
    async with yard_of(db, database.superuser) as made:
        yield made


async def place(yard: Yard, who: Tenant, ask: Ask) -> tuple[Allocation, Placed | None]:
    allocation = await yard.allocation(who, ask.sku, ask.gpu_count, ask.node_count)
    return allocation, await place_for(yard, who, allocation, ask)


async def place_for(yard: Yard, who: Tenant, allocation: Allocation, ask: Ask) -> Placed | None:
    """As create does it: in a transaction that sees its organisation only."""
    async with yard.db.transaction(who.sight, "test") as tx:
        placed = await service.place(tx, allocation.id, who.org_id, ask, lease_seconds=LEASE)
        if placed is not None:
            await tx.run("UPDATE allocations SET state = 'provisioning' WHERE id = $1", allocation.id)
    return placed


async def test_a_request_gets_its_gpus_in_one_numa_group_and_hears_why(yard: Yard):
    sku, who = await yard.sku(), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    allocation, placed = await place(yard, who, ask_of(sku, 4))
    assert placed is not None
    assert await yard.held(allocation) == (await yard.slots_of(node))[:4]
    assert [hold.slot_id for hold in placed.holds] == (await yard.slots_of(node))[:4]
    assert "NUMA group 0" in placed.explanation
    assert await yard.broken() == []


async def test_whole_nodes_and_single_gpus_come_from_both_ends(yard: Yard):
    sku, who = await yard.sku(), await yard.tenant()
    nodes = await yard.nodes_of(sku, 3)
    _, single = await place(yard, who, ask_of(sku, 1))
    _, whole = await place(yard, who, ask_of(sku, 8))
    assert single is not None
    assert whole is not None
    assert {hold.node_id for hold in single.holds} == {nodes[0]}
    assert {hold.node_id for hold in whole.holds} == {nodes[2]}
    _, another = await place(yard, who, ask_of(sku, 1))
    assert another is not None
    assert another.holds[0].node_id == nodes[0]


async def test_several_nodes_are_given_all_or_nothing(yard: Yard):
    sku, who = await yard.sku(), await yard.tenant()
    nodes = await yard.nodes_of(sku, 3)
    refused, nothing = await place(yard, who, ask_of(sku, 8, 4))
    assert nothing is None
    assert await yard.held(refused) == []
    allocation, placed = await place(yard, who, ask_of(sku, 8, 3))
    assert placed is not None
    assert {hold.node_id for hold in placed.holds} == set(nodes)
    assert len(await yard.held(allocation)) == 24


async def test_what_fits_is_found_however_many_free_gpus_do_not_fit(yard: Yard):
    """The only node with room is at the far end, behind hundreds of nodes that have too little."""
    sku, who = await yard.sku(gpus_per_node=8), await yard.tenant()
    nodes = await yard.nodes_of(sku, 300)
    filler = await yard.allocation(who, sku, state="active", due_at=None)
    await yard.sql.execute(
        "INSERT INTO slot_holds (id, org_id, allocation_id, slot_id, node_id, serial) "
        "SELECT uuidv7(), $1, $2, id, node_id, serial FROM slots WHERE sku_id = $3 AND gpu_index = 7 AND node_id <> $4",
        who.org_id,
        filler.id,
        sku.id,
        nodes[0],
    )
    _, placed = await place(yard, who, ask_of(sku, 8))
    assert placed is not None
    assert {hold.node_id for hold in placed.holds} == {nodes[0]}
    _, again = await place(yard, who, ask_of(sku, 8))
    assert again is None
    await yard.give_back(filler)


# races ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("per_request", [1, 2, 4, 8])
async def test_as_many_as_there_is_room_for_are_placed_and_never_one_fewer(yard: Yard, per_request: int):
    sku, who = await yard.sku(), await yard.tenant()
    await yard.nodes_of(sku)
    for _ in range(5):
        asked = [await yard.allocation(who, sku, per_request) for _ in range(8 // per_request)]
        all_placed = await asyncio.gather(*(place_for(yard, who, one, ask_of(sku, per_request)) for one in asked))
        assert [placed is not None for placed in all_placed] == [True] * (8 // per_request)
        assert await yard.broken() == []
        for one in asked:
            await yard.give_back(one)


@pytest.mark.parametrize("per_request", [1, 4])
async def test_two_hundred_at_once_for_eight_gpus_hold_exactly_eight(yard: Yard, per_request: int):
    sku = await yard.sku()
    tenants = [await yard.tenant() for _ in range(4)]
    [node] = await yard.nodes_of(sku)
    asked = [(tenants[n % 4], await yard.allocation(tenants[n % 4], sku, per_request)) for n in range(200)]
    placed = await asyncio.gather(*(place_for(yard, who, one, ask_of(sku, per_request)) for who, one in asked))
    assert sum(one is not None for one in placed) == 8 // per_request
    holders = await yard.sql.fetch("SELECT slot_id FROM slot_holds WHERE node_id = $1 AND ended_at IS NULL", node)
    assert len({row["slot_id"] for row in holders}) == len(holders) == 8
    assert await yard.broken() == []


async def test_who_waits_for_one_that_is_taken_back_gets_it(yard: Yard):
    """The last GPU is claimed, and the claim is not committed: 'nothing' would be a false answer."""
    sku, who = await yard.sku(gpus_per_node=1, allowed_gpu_counts=[1]), await yard.tenant()
    await yard.nodes_of(sku)
    first, second = await yard.allocation(who, sku), await yard.allocation(who, sku)
    claimed, give_up = asyncio.Event(), asyncio.Event()

    async def claims_and_fails() -> None:
        async with yard.db.transaction(who.sight, "test") as tx:
            assert await service.place(tx, first.id, who.org_id, ask_of(sku), lease_seconds=LEASE)
            claimed.set()
            await give_up.wait()
            raise TakenBack

    failing = asyncio.create_task(claims_and_fails())
    await claimed.wait()
    waiting = asyncio.create_task(place_for(yard, who, second, ask_of(sku)))
    await blocked(yard)
    give_up.set()
    with pytest.raises(TakenBack):
        await failing
    assert await waiting is not None
    assert await yard.held(second) != []
    assert await yard.held(first) == []


async def blocked(yard: Yard) -> None:
    """Until somebody waits for a lock."""
    waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"
    async with asyncio.timeout(30):
        while not await yard.sql.fetchval(waits):  # noqa: ASYNC110 # the one who waits is in the database
            await asyncio.sleep(0.01)


async def test_nothing_is_held_on_a_node_that_is_cordoned_at_the_same_moment(yard: Yard):
    sku, who = await yard.sku(), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    allocation = await yard.allocation(who, sku)
    async with yard.db.transaction(EVERYTHING, "test") as tx:
        await tx.run("UPDATE nodes SET cordoned = true WHERE id = $1", node)
        placing = asyncio.create_task(place_for(yard, who, allocation, ask_of(sku)))
        await blocked(yard)
    assert await placing is None
    assert await yard.held(allocation) == []


async def test_a_lost_race_leaves_no_lock_behind(yard: Yard):
    """One of eight is gone: the claim of all eight fails, and the seven can be had while its transaction goes on."""
    sku, who = await yard.sku(), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    slots = await yard.slots_of(node)
    whole, other = await yard.allocation(who, sku, 8), await yard.allocation(who, sku, 7)
    async with yard.db.transaction(who.sight, "test") as tx, yard.db.transaction(who.sight, "test") as beside:
        await beside.run("SELECT FROM slots WHERE id = $1 FOR UPDATE", slots[0])
        claim = "SELECT * FROM slots_claim($1, $2, $3, $4, $5, false)"
        rows = await tx.rows(claim, whole.id, who.org_id, slots, 8, LEASE)
        assert {row["slot_id"] for row in rows} == set(slots[1:])
        assert all(row["hold_id"] is None for row in rows)
        rows = await beside.rows(claim, other.id, who.org_id, slots[1:], 7, LEASE)
        assert len([row for row in rows if row["hold_id"]]) == 7


# what is not sold ----------------------------------------------------------------------------------------------------
SICK: dict[str, tuple[str, Reason]] = {
    "cordoned": ("UPDATE nodes SET cordoned = true WHERE id = $1", Reason.CORDONED),
    "drained": ("UPDATE nodes SET drained = true WHERE id = $1", Reason.DRAINED),
    "silent": (
        "UPDATE node_heartbeats SET seen_at = now() - interval '16 seconds' WHERE node_id = $1",
        Reason.SILENT,
    ),
    "lost": ("UPDATE node_heartbeats SET liveness = 'lost' WHERE node_id = $1", Reason.SILENT),
    "never heard": ("DELETE FROM node_heartbeats WHERE node_id = $1", Reason.SILENT),
    "sick": ("UPDATE nodes SET host_healthy = false WHERE id = $1", Reason.UNHEALTHY),
    "unchecked": ("UPDATE nodes SET host_healthy = NULL WHERE id = $1", Reason.UNHEALTHY),
    "not looked at": ("UPDATE nodes SET inspected_at = NULL WHERE id = $1", Reason.UNHEALTHY),
    "other hardware": ("UPDATE nodes SET differences = '{GPU: another}' WHERE id = $1", Reason.MISMATCH),
    "in quarantine": (
        "UPDATE nodes SET quarantine_reason = 'x', quarantined_at = now() WHERE id = $1",
        Reason.QUARANTINED,
    ),
    "disabled": ("UPDATE nodes SET state = 'disabled' WHERE id = $1", Reason.OUT_OF_SERVICE),
    "GPUs in quarantine": (
        "INSERT INTO slot_quarantines (id, slot_id, node_id, serial, reason, strike) "
        "SELECT uuidv7(), id, node_id, serial, 'x', false FROM slots WHERE node_id = $1",
        Reason.QUARANTINED,
    ),
    "GPUs gone": ("UPDATE slots SET present = false WHERE node_id = $1", Reason.ABSENT),
    "without fabric": ("UPDATE slots SET fabric_address = NULL WHERE node_id = $1", Reason.UNPAIRED),
    "without disks": ("UPDATE slots SET nvme_address = NULL WHERE node_id = $1", Reason.UNPAIRED),
}


@pytest.mark.parametrize("sickness", SICK)
async def test_a_node_that_is_not_sold_is_not_chosen_and_the_reason_is_told(yard: Yard, sickness: str):
    sku, who = await yard.sku(needs_fabric=True, needs_nvme=True), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    statement, reason = SICK[sickness]
    await yard.sql.execute(statement, node)
    _, placed = await place(yard, who, ask_of(sku))
    assert placed is None
    told = await why_not(yard, who, ask_of(sku))
    expected = Reason.TOO_LARGE if reason is Reason.UNPAIRED else reason  # nothing it could ever be placed on
    assert told.dominant is expected
    if reason is not Reason.ABSENT:
        assert told.counts == {reason: 8}


async def why_not(yard: Yard, who: Tenant, ask: Ask) -> Any:
    async with yard.db.read(who.sight) as tx:
        return await service.why_not(tx, ask, lease_seconds=LEASE)


async def test_a_slot_in_quarantine_does_not_keep_its_siblings(yard: Yard):
    sku, who = await yard.sku(), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    slots = await yard.slots_of(node)
    await yard.sql.execute(
        "INSERT INTO slot_quarantines (id, slot_id, node_id, serial, reason, strike) "
        "SELECT uuidv7(), id, node_id, serial, 'x', false FROM slots WHERE id = $1",
        slots[0],
    )
    allocation, placed = await place(yard, who, ask_of(sku, 2))
    assert placed is not None
    assert await yard.held(allocation) == slots[1:3]  # its group is the tighter one now
    assert (await place(yard, who, ask_of(sku, 8)))[1] is None


# why not -------------------------------------------------------------------------------------------------------------
async def test_a_full_house_tells_when_the_first_lease_ends_and_nobody_s_name(yard: Yard):
    sku, who, other = await yard.sku(), await yard.tenant(), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    held = await yard.occupied(other, sku, await yard.slots_of(node))
    told = await why_not(yard, who, ask_of(sku))
    assert told.dominant is Reason.HELD
    assert told.counts == {Reason.HELD: 8}
    assert told.earliest_end == held.expires_at
    assert held.name not in told.summary
    assert f"{held.expires_at:%H:%M} UTC" in told.summary


async def test_free_gpus_that_are_apart_are_called_so(yard: Yard):
    sku, who = await yard.sku(), await yard.tenant()
    for node in await yard.nodes_of(sku, 2):
        await yard.occupied(who, sku, (await yard.slots_of(node))[:4])
    told = await why_not(yard, who, ask_of(sku, 8))
    assert told.dominant is Reason.FRAGMENTED
    assert told.counts == {Reason.FRAGMENTED: 8, Reason.HELD: 8}


async def test_what_could_never_fit_is_told_apart_from_what_does_not_fit_now(yard: Yard):
    sku, who = await yard.sku(), await yard.tenant()
    assert (await why_not(yard, who, ask_of(sku))).dominant is Reason.ABSENT
    await yard.nodes_of(sku, 2)
    for ask in (ask_of(sku, 6), ask_of(sku, 8, 3)):
        assert (await why_not(yard, who, ask)).dominant is Reason.TOO_LARGE


async def test_whether_something_fits_is_said_without_holding_it(yard: Yard):
    sku, who = await yard.sku(), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    async with yard.db.read(who.sight) as tx:
        choice = await service.whether(tx, ask_of(sku, 2), lease_seconds=LEASE)
        assert choice is not None
        assert choice.rooms[0].node_id == node
        assert await service.whether(tx, ask_of(sku, 2, 2), lease_seconds=LEASE) is None
    assert await free_slots(yard, sku) == 8


async def free_slots(yard: Yard, sku: Sku) -> int:
    found: int = await yard.sql.fetchval("SELECT count(*) FROM slots WHERE sku_id = $1 AND NOT held", sku.id)
    return found


async def test_nobody_holds_for_another_organisation(yard: Yard):
    sku, who, other = await yard.sku(), await yard.tenant(), await yard.tenant()
    await yard.nodes_of(sku)
    theirs = await yard.allocation(other, sku)
    with pytest.raises(Exception, match="row-level security"):
        async with yard.db.transaction(who.sight, "test") as tx:
            await service.place(tx, theirs.id, other.org_id, ask_of(sku), lease_seconds=LEASE)
    assert await free_slots(yard, sku) == 8
