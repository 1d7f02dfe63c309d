"""One rule of what is sold, told twice: in words by the registry of nodes, and in SQL by placement. They agree on every
combination. And nobody takes a node away under what is held of it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import product
from typing import Any
from uuid import UUID

import pytest

from gpuaas.domains.allocations.placement import service
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.domains.nodes.registry.sellability import why_slot_not
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import clock
from gpuaas.kit.errors import Conflict
from tests.support.servers import DatabaseUrls
from tests.support.slot_yard import EVERYTHING, LEASE, Yard, ask_of, yard_of

STATES = ("enrolling", "active", "disabled")
HEARD: tuple[tuple[str, int] | None, ...] = (None, ("online", 0), ("online", LEASE + 60), ("unknown", 0), ("lost", 0))
FLAGS = (False, True)
HEALTH = (None, False, True)
COMBINATIONS = list(product(STATES, HEARD, FLAGS, FLAGS, FLAGS, FLAGS, HEALTH, FLAGS, FLAGS, FLAGS))
"""State, heartbeat; cordoned, drained, node in quarantine, looked at; health; differences, present, slot in
quarantine."""


@pytest.fixture(scope="module")
async def yard(db: Database, database: DatabaseUrls) -> AsyncIterator[Yard]:
    async with yard_of(db, database.superuser) as made:
        yield made


async def _set_up(yard: Yard, nodes: list[Any]) -> None:
    """Each node as one of the combinations says."""
    rows = list(zip(nodes, COMBINATIONS, strict=True))
    await yard.sql.executemany(
        "UPDATE nodes SET state = $2, cordoned = $3, drained = $4, host_healthy = $7, "
        "quarantine_reason = CASE WHEN $5 THEN 'x' END, quarantined_at = CASE WHEN $5 THEN now() END, "
        "inspected_at = CASE WHEN $6 THEN now() END, differences = CASE WHEN $8 THEN ARRAY['x'] ELSE '{}' END "
        "WHERE id = $1",
        [(node, state, *rest[:6]) for node, (state, _, *rest) in rows],
    )
    await yard.sql.execute("DELETE FROM node_heartbeats WHERE node_id = ANY($1)", [n for n, c in rows if c[1] is None])
    await yard.sql.executemany(
        "UPDATE node_heartbeats SET liveness = $2, seen_at = $3 WHERE node_id = $1",
        [(node, c[1][0], clock.now() - timedelta(seconds=c[1][1])) for node, c in rows if c[1] is not None],
    )
    await yard.sql.executemany("UPDATE slots SET present = $2 WHERE node_id = $1", [(n, c[8]) for n, c in rows])
    await yard.sql.execute(
        "INSERT INTO slot_quarantines (id, slot_id, node_id, serial, reason, strike) "
        "SELECT uuidv7(), id, node_id, serial, 'x', false FROM slots WHERE node_id = ANY($1)",
        [node for node, combination in rows if combination[9]],
    )


async def test_the_words_and_the_sql_agree_on_every_combination(yard: Yard):
    sku = await yard.sku(gpus_per_node=1, allowed_gpu_counts=[1])
    nodes = await yard.nodes_of(sku, len(COMBINATIONS))
    await _set_up(yard, nodes)
    async with yard.db.read(EVERYTHING) as tx:
        known = await registry.several(tx, [UUID(str(node)) for node in nodes], lease=LEASE)
        groups = await service.groups(tx, sku, lease_seconds=LEASE)
    in_words = {
        node
        for node, combination in zip(nodes, COMBINATIONS, strict=True)
        if not why_slot_not(known[node], present=combination[8], quarantine_reason="x" if combination[9] else None)
    }
    assert {group.node_id for group in groups} == in_words
    assert len(in_words) == 1  # of thousands: each rule is needed
    who = await yard.tenant()
    for number in range(2):
        allocation = await yard.allocation(who, sku)
        async with yard.db.transaction(who.sight, "test") as tx:
            placed = await service.place(tx, allocation.id, who.org_id, ask_of(sku), lease_seconds=LEASE)
        assert (placed is not None) is (number == 0)
        assert placed is None or placed.holds[0].node_id in in_words


@pytest.mark.parametrize("verb", [registry.node_disable, registry.node_remove])
async def test_a_node_of_which_something_is_held_is_neither_disabled_nor_removed(yard: Yard, verb: Any):
    sku, who = await yard.sku(), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    held = await yard.occupied(who, sku, (await yard.slots_of(node))[:1])
    with pytest.raises(Conflict, match="Drain it first"):
        async with yard.db.transaction(EVERYTHING, "test") as tx:
            await verb(tx, node)
    await yard.give_back(held)
    async with yard.db.transaction(EVERYTHING, "test") as tx:
        await verb(tx, node)


async def test_disabling_waits_for_whoever_is_being_placed_and_then_refuses(yard: Yard):
    sku, who = await yard.sku(), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    allocation = await yard.allocation(who, sku)

    async def disable() -> None:
        async with yard.db.transaction(EVERYTHING, "test") as tx:
            await registry.node_disable(tx, node)

    async with yard.db.transaction(who.sight, "test") as tx:
        assert await service.place(tx, allocation.id, who.org_id, ask_of(sku), lease_seconds=LEASE)
        disabling = asyncio.create_task(disable())
        async with asyncio.timeout(30):
            waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"
            while not await yard.sql.fetchval(waits):  # noqa: ASYNC110 # the one who waits is in the database
                await asyncio.sleep(0.01)
    with pytest.raises(Conflict):
        await disabling


async def test_a_node_of_which_something_is_held_is_not_loaded(yard: Yard):
    sku, who = await yard.sku(), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    await yard.occupied(who, sku, (await yard.slots_of(node))[:1])
    with pytest.raises(Conflict, match="not loaded now"):
        async with yard.db.transaction(EVERYTHING, "test") as tx:
            await registry.node_check(tx, node, load=True)
