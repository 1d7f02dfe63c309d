"""SQL of health."""

from collections.abc import Sequence
from uuid import UUID

from gpuaas.contracts.tasks.topology import GpuFault
from gpuaas.domains.nodes.health.models import Entry, HealthRow, SlotQuarantineRow
from gpuaas.infra.postgres.tx import Tx, decode, decode_all
from gpuaas.kit.ids import new_id

_COLUMNS = "id, slot_id, node_id, serial, reason, detail, strike, since, return_task_id, ended_at"


def _sql(text: str) -> str:
    return text.replace("COLUMNS", _COLUMNS)


QUARANTINE = _sql("""
INSERT INTO slot_quarantines (id, slot_id, node_id, serial, reason, detail, evidence, strike)
VALUES ($1, $2, $3, $4, $5, $6, $7::jsonb, $8)
ON CONFLICT (slot_id) WHERE ended_at IS NULL DO NOTHING RETURNING COLUMNS
""")
OPEN_OF_SLOT = _sql("SELECT COLUMNS FROM slot_quarantines WHERE slot_id = $1 AND ended_at IS NULL FOR UPDATE")
OPEN_OF_SLOTS = _sql("SELECT COLUMNS FROM slot_quarantines WHERE slot_id = ANY($1) AND ended_at IS NULL")
OPEN_OF_SERIAL = _sql("SELECT COLUMNS FROM slot_quarantines WHERE serial = $1 AND ended_at IS NULL ORDER BY since DESC")
STRIKES = "SELECT serial, count(*) AS strikes FROM slot_quarantines WHERE serial = ANY($1) AND strike GROUP BY serial"
CHECKING = "UPDATE slot_quarantines SET return_task_id = $2 WHERE id = $1 AND ended_at IS NULL"
# Only through the check that was asked for: one from before the fault, or another one, returns nothing.
RETURN = _sql("""
UPDATE slot_quarantines SET ended_at = now()
WHERE node_id = $1 AND serial = $2 AND return_task_id = $3 AND ended_at IS NULL RETURNING COLUMNS
""")
# Something new is wrong: the check that was under way no longer returns it.
FORGET_CHECK = "UPDATE slot_quarantines SET return_task_id = NULL WHERE slot_id = $1 AND ended_at IS NULL"
ADD_FAULTS = """
INSERT INTO gpu_faults (id, node_id, serial, kind, code, detail, at)
SELECT f.id, $1, f.serial, f.kind, f.code, f.detail, f.at
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[])
    AS f (id, serial, kind, code, detail, at)
ON CONFLICT ON CONSTRAINT gpu_faults_once DO NOTHING RETURNING id
"""
FAULTS_TOLD = "SELECT count(*) FROM (SELECT FROM gpu_faults WHERE node_id = $1 AND id > $2 LIMIT $3) AS told"
NOTE = """
INSERT INTO node_health (id, node_id, serial, kind, good, code, detail)
SELECT e.id, $1, e.serial, e.kind, e.good, e.code, e.detail
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::boolean[], $6::text[], $7::text[])
    AS e (id, serial, kind, good, code, detail)
"""
HISTORY = """
SELECT * FROM node_health WHERE node_id = $1 AND id < $2 AND ($3::text IS NULL OR serial = $3)
ORDER BY id DESC LIMIT $4
"""
# Faults are few, and each counts once whenever it is told again: they are not cut by time.
PRUNE_FAULTS = "DELETE FROM gpu_faults WHERE id IN (SELECT id FROM gpu_faults WHERE id < $1 ORDER BY id LIMIT $2)"


async def quarantine(
    tx: Tx, *, slot_id: UUID, node_id: UUID, serial: str, reason: str, detail: str, evidence: str, strike: bool
) -> SlotQuarantineRow | None:
    """None: it is in quarantine already."""
    row = await tx.row(QUARANTINE, new_id(), slot_id, node_id, serial, reason, detail, evidence, strike)
    return None if row is None else decode(SlotQuarantineRow, row)


async def open_of_slot(tx: Tx, slot_id: UUID) -> SlotQuarantineRow | None:
    row = await tx.row(OPEN_OF_SLOT, slot_id)
    return None if row is None else decode(SlotQuarantineRow, row)


async def open_of_slots(tx: Tx, slots: Sequence[UUID]) -> dict[UUID, SlotQuarantineRow]:
    rows = decode_all(SlotQuarantineRow, await tx.rows(OPEN_OF_SLOTS, list(slots)))
    return {row.slot_id: row for row in rows}


async def open_of_serial(tx: Tx, serial: str) -> list[SlotQuarantineRow]:
    """In whatever slots the GPU was, the latest first."""
    return decode_all(SlotQuarantineRow, await tx.rows(OPEN_OF_SERIAL, serial))


async def strikes(tx: Tx, serials: Sequence[str]) -> dict[str, int]:
    return {row["serial"]: row["strikes"] for row in await tx.rows(STRIKES, list(serials))}


async def checking(tx: Tx, quarantine_id: UUID, task_id: UUID) -> None:
    await tx.run(CHECKING, quarantine_id, task_id)


async def forget_check(tx: Tx, slot_id: UUID) -> None:
    await tx.run(FORGET_CHECK, slot_id)


async def give_back(tx: Tx, node_id: UUID, serial: str, task_id: UUID) -> SlotQuarantineRow | None:
    row = await tx.row(RETURN, node_id, serial, task_id)
    return None if row is None else decode(SlotQuarantineRow, row)


async def faults_add(tx: Tx, node_id: UUID, faults: Sequence[GpuFault]) -> list[GpuFault]:
    """Those that were not known yet."""
    by_id = {new_id(): fault for fault in faults}
    told = list(by_id.values())
    rows = await tx.rows(
        ADD_FAULTS,
        node_id,
        list(by_id),
        [f.serial for f in told],
        [f.kind for f in told],
        [f.code for f in told],
        [f.detail for f in told],
        [f.at for f in told],
    )
    return [by_id[row["id"]] for row in rows]


async def faults_told(tx: Tx, node_id: UUID, *, since: UUID, at_most: int) -> int:
    return int(await tx.value(FAULTS_TOLD, node_id, since, at_most))


async def note(tx: Tx, node_id: UUID, entries: Sequence[Entry]) -> None:
    await tx.run(
        NOTE,
        node_id,
        [new_id() for _ in entries],
        [e.serial for e in entries],
        [e.kind for e in entries],
        [e.good for e in entries],
        [e.code for e in entries],
        [e.detail for e in entries],
    )


async def history(tx: Tx, node_id: UUID, *, serial: str | None, before: UUID, limit: int) -> list[HealthRow]:
    return decode_all(HealthRow, await tx.rows(HISTORY, node_id, before, serial, limit))


async def faults_prune(tx: Tx, *, before: UUID, limit: int) -> int:
    return await tx.run(PRUNE_FAULTS, before, limit)
