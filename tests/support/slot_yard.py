"""A yard of nodes, slots and organisations for tests of placement, queue and quotas: written by SQL, past the product,
because there are many of them and how a node comes to be is tested elsewhere."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from gpuaas.contracts.http.inventory import Shape, SkuState
from gpuaas.domains.allocations.models import Allocation
from gpuaas.domains.allocations.placement.models import Ask
from gpuaas.domains.inventory.models import Sku
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, decode
from gpuaas.kit import clock
from gpuaas.kit.ids import AllocationId, NodeId, OrgId, ProjectId, SkuId, SlotId, new_id
from tests.support.money import PLENTY, given_by_sql

EVERYTHING = Sight(PLATFORM)
LEASE = 15
GIB = 1 << 30
_NODES = """
WITH made AS (
    INSERT INTO nodes (id, name, region, sku_id, state, inspected_at, host_healthy, enrolled_at)
    SELECT uuidv7(), $1 || n, 'eu-1', $2, 'active', now(), true, now() FROM generate_series(1, $3) AS n RETURNING id
), heard AS (
    INSERT INTO node_heartbeats (node_id, seen_at, sent_at, liveness, liveness_since, boot_id, agent_version,
                                 next_sequence, generation, accounts)
    SELECT id, now() + interval '1 hour', now(), 'online', now(), 'b', '1', 1, 1, '{}' FROM made
), sequenced AS (
    INSERT INTO task_sequences (node_id) SELECT id FROM made
), slotted AS (
    INSERT INTO slots (id, node_id, sku_id, serial, gpu_index, address, vendor, model, memory_bytes, numa, iommu_group,
                       nvme_address, fabric_address, present)
    SELECT uuidv7(), id, $2, 'S' || id || '-' || i, i, '0000:' || i, 'NVIDIA', 'H200', 1, i / $5, i,
           CASE WHEN $6 THEN 'n' || i END, CASE WHEN $7 THEN 'f' || i END, true
    FROM made, generate_series(0, $4 - 1) AS i
)
SELECT id FROM made ORDER BY id
"""


def sku(**changed: Any) -> Sku:
    row: dict[str, Any] = {
        "id": SkuId(new_id()),
        "name": f"sku-{new_id().hex[-10:]}",
        "title": "8 × H200",
        "shape": Shape.BAREMETAL,
        "gpu_vendor": "NVIDIA",
        "gpu_model": f"H200-{new_id().hex[-6:]}",
        "gpu_memory_bytes": 141 * GIB,
        "gpus_per_node": 8,
        "allowed_gpu_counts": [1, 2, 4, 8],
        "whole_node_only": False,
        "needs_nvme": False,
        "needs_fabric": False,
        "region": "eu-1",
        "state": SkuState.ACTIVE,
        "created_at": clock.now(),
    }
    return Sku(**(row | changed))


@dataclass
class Tenant:
    org_id: OrgId
    project_id: ProjectId

    @property
    def sight(self) -> Sight:
        return Sight(self.org_id)


@dataclass
class Yard:
    db: Database
    sql: "asyncpg.Connection[asyncpg.Record]"
    nodes: list[NodeId] = field(default_factory=list)

    async def sku(self, **changed: Any) -> Sku:
        made = sku(**changed)
        row = {**msgspec.structs.asdict(made), "shape": str(made.shape), "state": str(made.state)}
        names = ", ".join(row)
        places = ", ".join(f"${n}" for n in range(1, len(row) + 1))
        await self.sql.execute(f"INSERT INTO skus ({names}) VALUES ({places})", *row.values())
        await self.sql.execute(
            "INSERT INTO sku_prices (id, sku_id, currency, micros_per_gpu_hour, valid_from, set_by) "
            "VALUES ($1, $2, 'USD', 3500000, now() - interval '1 day', 'test')",
            new_id(),
            made.id,
        )
        return made

    async def nodes_of(
        self, of: Sku, count: int = 1, *, per_group: int = 4, nvme: bool = True, fabric: bool = True
    ) -> list[NodeId]:
        """Nodes whose GPUs can all be sold, with so many of them in each NUMA group."""
        name = f"n-{new_id().hex[-8:]}-"
        rows = await self.sql.fetch(_NODES, name, of.id, count, of.gpus_per_node, per_group, nvme, fabric)
        return [NodeId(row["id"]) for row in rows]

    async def slots_of(self, node_id: UUID) -> list[SlotId]:
        rows = await self.sql.fetch("SELECT id FROM slots WHERE node_id = $1 ORDER BY gpu_index", node_id)
        return [SlotId(row["id"]) for row in rows]

    async def tenant(self, micros: int = PLENTY) -> Tenant:
        org_id, project_id = OrgId(new_id()), ProjectId(new_id())
        await self.sql.execute("INSERT INTO orgs (id, name, title) VALUES ($1, $2, 'T')", org_id, f"o-{org_id.hex}")
        await self.sql.execute(
            "INSERT INTO projects (id, org_id, name, title) VALUES ($1, $2, 'p', 'P')", project_id, org_id
        )
        if micros:
            await given_by_sql(self.sql, org_id, micros)
        return Tenant(org_id, project_id)

    async def allocation(
        self, who: Tenant, of: Sku, gpu_count: int = 1, node_count: int = 1, **changed: Any
    ) -> Allocation:
        """In the queue, unless said otherwise; it holds nothing."""
        allocation_id = AllocationId(new_id())
        row: dict[str, Any] = {
            "id": allocation_id,
            "org_id": who.org_id,
            "project_id": who.project_id,
            "name": f"a-{allocation_id.hex[-12:]}",
            "sku_id": of.id,
            "gpu_count": gpu_count,
            "node_count": node_count,
            "isolation": "user-revoke",
            "price_id": await self.sql.fetchval("SELECT id FROM sku_prices WHERE sku_id = $1", of.id),
            "requested_by": "test",
            "ssh_keys": ["ssh-ed25519 AAAA"],
            "state": "requested",
            "due_at": clock.now() + timedelta(hours=1),
            "lease_seconds": 3600,
            "correlation_id": "test",
            **changed,
        }
        names, places = ", ".join(row), ", ".join(f"${n}" for n in range(1, len(row) + 1))
        found = await self.sql.fetchrow(
            f"INSERT INTO allocations ({names}) VALUES ({places}) RETURNING *", *row.values()
        )
        assert found is not None
        return decode(Allocation, found)

    async def hold(self, allocation: Allocation, slots: list[SlotId], **changed: Any) -> None:
        """Past placement: these slots are this allocation's."""
        for slot_id in slots:
            row = {
                "id": new_id(),
                "org_id": allocation.org_id,
                "allocation_id": allocation.id,
                "slot_id": slot_id,
                "node_id": await self.sql.fetchval("SELECT node_id FROM slots WHERE id = $1", slot_id),
                "serial": await self.sql.fetchval("SELECT serial FROM slots WHERE id = $1", slot_id),
                **changed,
            }
            names, places = ", ".join(row), ", ".join(f"${n}" for n in range(1, len(row) + 1))
            await self.sql.execute(f"INSERT INTO slot_holds ({names}) VALUES ({places})", *row.values())

    async def occupied(self, who: Tenant, of: Sku, slots: list[SlotId], **changed: Any) -> Allocation:
        """An active allocation of these slots."""
        now = clock.now()
        expires = changed.pop("expires_at", now + timedelta(hours=1))
        made = await self.allocation(
            who, of, len(slots), state="active", due_at=None, active_at=now, expires_at=expires, **changed
        )
        await self.hold(made, slots)
        return made

    async def give_back(self, allocation: Allocation) -> None:
        await self.sql.execute(
            "UPDATE slot_holds SET ended_at = now(), state = 'unused' WHERE allocation_id = $1 AND ended_at IS NULL",
            allocation.id,
        )
        await self.sql.execute(
            "UPDATE allocations SET state = 'failed', ended_at = now(), due_at = NULL WHERE id = $1", allocation.id
        )

    async def held(self, allocation: Allocation) -> list[SlotId]:
        rows = await self.sql.fetch(
            "SELECT h.slot_id FROM slot_holds h JOIN slots s ON s.id = h.slot_id "
            "WHERE h.allocation_id = $1 AND h.ended_at IS NULL ORDER BY s.node_id, s.gpu_index",
            allocation.id,
        )
        return [SlotId(row["slot_id"]) for row in rows]

    async def broken(self) -> list[str]:
        """What the invariants of holds find."""
        found = []
        for view in ("invariant_04_one_holder", "invariant_05_live_have_holds"):
            found += [f"{row['subject']}: {row['problem']}" for row in await self.sql.fetch(f"SELECT * FROM {view}")]
        return found


def ask_of(of: Sku, gpu_count: int = 1, node_count: int = 1) -> Ask:
    return Ask(sku=of, gpu_count=gpu_count, node_count=node_count)


@asynccontextmanager
async def yard_of(db: Database, superuser_url: str) -> AsyncIterator[Yard]:
    sql = await asyncpg.connect(superuser_url)
    try:
        yield Yard(db, sql)
    finally:
        await sql.close()
