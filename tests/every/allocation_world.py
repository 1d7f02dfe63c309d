"""An allocation in the small world, with one of everything that belongs to it. Written by SQL, past the product."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.every.billing_world import put_money
from tests.every.fleet_world import put_sku
from tests.every.world import Setting

LASTS = {"requested", "provisioning", "stopping", "stopped", "starting", "releasing"}
ENDED = {"released", "failed"}


async def put_allocation(s: Setting, *, state: str = "active", held: bool = True, **more: Any) -> UUID:
    """In this state, with a hold, a proof, a certificate, a moment of its timeline and a flow that has ended."""
    allocation_id, now = new_id(), clock.now()
    sku_id = await put_sku(s)
    price_id = await s.sql.fetchval("SELECT id FROM sku_prices WHERE sku_id = $1", sku_id)
    row: dict[str, Any] = {
        "id": allocation_id,
        "org_id": s.org_id,
        "project_id": s.project_id,
        "name": f"a-{allocation_id.hex[-12:]}",
        "sku_id": sku_id,
        "gpu_count": 1,
        "node_count": 1,
        "isolation": "user-revoke",
        "price_id": price_id,
        "requested_by": "example",
        "ssh_keys": ["ssh-ed25519 AAAA"],
        "state": state,
        "due_at": now + timedelta(hours=1) if state in LASTS else None,
        "lease_seconds": 3600,
        "active_at": now if state not in {"requested", "provisioning", "failed"} else None,
        "expires_at": now + timedelta(hours=1),
        "ends_at": now + timedelta(days=30),
        "ended_at": now if state in ENDED else None,
        "correlation_id": "example",
    }
    await s.put("allocations", **(row | more))
    if held:
        await _put_held(s, allocation_id, sku_id, ended=state in ENDED)
    if state == "active":
        await put_deposit(s, allocation_id)
        await put_meter_of(s, allocation_id)
    await s.put(
        "allocation_timeline",
        id=new_id(),
        org_id=s.org_id,
        allocation_id=allocation_id,
        phase=state,
        actor="example",
        correlation_id="example",
    )
    return allocation_id


async def put_deposit(s: Setting, allocation_id: UUID) -> None:
    await put_money(s)
    await s.sql.fetchval(
        "SELECT id FROM ledger_hold_take($1, $2, $3, 'USD', 1000000, $4, 'example', now() + interval '1 hour')",
        new_id(),
        f"allocation:{allocation_id}",
        s.org_id,
        allocation_id,
    )


async def put_meter_of(s: Setting, allocation_id: UUID) -> None:
    await s.sql.fetchval(
        "SELECT m.id FROM allocations a JOIN sku_prices p ON p.id = a.price_id, LATERAL meter_open(uuidv7(), a.org_id, "
        "a.project_id, a.id, a.sku_id, a.gpu_count, p.id, p.micros_per_gpu_hour * a.gpu_count, p.currency, 'example', "
        "NULL, now()) AS m WHERE a.id = $1",
        allocation_id,
    )


async def _put_held(s: Setting, allocation_id: UUID, sku_id: UUID, *, ended: bool) -> None:
    node_id, slot_id, serial = new_id(), new_id(), f"S{allocation_id.hex[-10:]}"
    await s.put("nodes", id=node_id, name=f"node-{node_id.hex[-12:]}", region="eu-1", sku_id=sku_id, state="active")
    await s.put("task_sequences", node_id=node_id)
    await s.put(
        "slots",
        id=slot_id,
        node_id=node_id,
        sku_id=sku_id,
        serial=serial,
        gpu_index=0,
        address="0000:01:00.0",
        vendor="NVIDIA",
        model="H200",
        memory_bytes=1 << 37,
        numa=0,
        iommu_group=1,
        present=True,
    )
    common = {"org_id": s.org_id, "allocation_id": allocation_id, "node_id": node_id}
    await s.put(
        "slot_holds",
        id=new_id(),
        slot_id=slot_id,
        serial=serial,
        state="clean" if ended else "held",
        ended_at=clock.now() if ended else None,
        **common,
    )
    await s.put("allocation_proofs", id=new_id(), task_id=new_id(), serials=[serial], passed=True, **common)


async def put_certificate(s: Setting, allocation_id: UUID) -> UUID:
    certificate_id = new_id()
    hold = await s.sql.fetchrow("SELECT node_id, serial FROM slot_holds WHERE allocation_id = $1", allocation_id)
    await s.put(
        "sanitisation_certificates",
        id=certificate_id,
        org_id=s.org_id,
        allocation_id=allocation_id,
        node_id=hold["node_id"],
        serials=[hold["serial"]],
        key_id="example",
        envelope="{}",
        issued_at=clock.now(),
    )
    return certificate_id


async def put_flow(s: Setting, subject_id: UUID, *, state: str = "forward", **more: Any) -> UUID:
    run_id, now = new_id(), clock.now()
    ended = state not in ("forward", "undoing")
    row: dict[str, Any] = {
        "id": run_id,
        "kind": "allocation.provision",
        "version": 1,
        "subject_id": subject_id,
        "org_id": s.org_id,
        "state": state,
        "step": "reserve",
        "next_at": now + timedelta(minutes=10),
        "due_at": now + timedelta(minutes=10),
        "correlation_id": "example",
        "traceparent": "",
        "created_by": "example",
        "ended_at": now if ended else None,
    }
    await s.put("flow_runs", **(row | more))
    return run_id


async def put_quota(s: Setting, gpus: int = 8) -> UUID:
    quota_id = new_id()
    model = f"H200-{quota_id.hex[-8:]}"  # an organisation has one of each model
    await s.put("gpu_quotas", id=quota_id, org_id=s.org_id, gpu_model=model, gpus=gpus, set_by="example")
    return quota_id
