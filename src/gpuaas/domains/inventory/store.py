"""SQL of SKUs, prices and slots."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.inventory import SkuCreate, SkuState
from gpuaas.contracts.tasks.topology import Gpu
from gpuaas.domains.inventory.models import Price, Sku, Slot
from gpuaas.domains.inventory.states import LIFE
from gpuaas.infra.postgres.tx import Tx, conflicts, decode, decode_all
from gpuaas.kit.errors import Missing, Refused
from gpuaas.kit.ids import NodeId, SkuId, new_id

_NAMES = {"skus_name_key": Code.SKU_NAME_TAKEN}
_FROM = {"sku_prices_one_from": Code.SKU_PRICE_EXISTS}

INSERT = """
INSERT INTO skus (id, name, title, shape, gpu_vendor, gpu_model, gpu_memory_bytes, gpus_per_node, allowed_gpu_counts,
                  whole_node_only, needs_nvme, needs_fabric, region)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING *
"""
GET = "SELECT * FROM skus WHERE id = $1"
LIST = """
SELECT * FROM skus WHERE id > $1 AND ($2::text IS NULL OR state = $2) AND ($3::text IS NULL OR region = $3)
ORDER BY id LIMIT $4
"""
UPDATE = """
UPDATE skus SET title = coalesce($2, title), allowed_gpu_counts = coalesce($3, allowed_gpu_counts),
    whole_node_only = coalesce($4, whole_node_only), state = coalesce($5, state)
WHERE id = $1 AND ($5::text IS NULL OR state = $5 OR state = ANY($6)) RETURNING *
"""
# No price begins in the past: what was charged stays what it was.
SET_PRICE = """
INSERT INTO sku_prices (id, sku_id, currency, micros_per_gpu_hour, valid_from, set_by)
SELECT $1, $2, $3, $4, coalesce($5, now()), $6 WHERE coalesce($5, now()) >= now() RETURNING *
"""
PRICE = "SELECT * FROM sku_prices WHERE id = $1"
PRICES = "SELECT * FROM sku_prices WHERE sku_id = $1 AND id > $2 ORDER BY id LIMIT $3"
PRICES_NOW = """
SELECT DISTINCT ON (sku_id) * FROM sku_prices WHERE sku_id = ANY($1) AND valid_from <= now()
ORDER BY sku_id, valid_from DESC, created_at DESC, id DESC
"""
SLOTS = "SELECT * FROM slots WHERE node_id = ANY($1) ORDER BY node_id, gpu_index, id"
SLOT = "SELECT * FROM slots WHERE id = $1"
DIRTY = "SELECT EXISTS (SELECT FROM slots WHERE serial = $1 AND dirty)"
CLEANED = "UPDATE slots SET dirty = false WHERE serial = $1 AND dirty"
ANY_HELD = "SELECT EXISTS (SELECT FROM slots WHERE node_id = $1 AND held)"
ANY_IN_USE = "SELECT EXISTS (SELECT FROM slots_in_use WHERE node_id = $1)"
SLOTS_CALLED = "SELECT * FROM slots WHERE serial = ANY($1) AND present ORDER BY serial, node_id"
# In one order for everybody, so that two who hold several never wait for each other in a circle.
HOLD_SERIALS = """
SELECT pg_advisory_xact_lock(key) FROM (
    SELECT DISTINCT hashtextextended('slots.serial:' || serial, 0) AS key FROM unnest($1::text[]) AS serial ORDER BY key
) AS keys
"""
ABSENT = "UPDATE slots SET present = false WHERE node_id = $1 AND serial <> ALL($2) AND present RETURNING serial"
SEEN = """
INSERT INTO slots (id, node_id, serial, gpu_index, address, vendor, model, memory_bytes, numa, iommu_group,
                   nvme_address, fabric_address, sku_id, present)
SELECT u.*, $13, true
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::bigint[],
            $9::int[], $10::int[], $11::text[], $12::text[]) AS u
ON CONFLICT (node_id, serial) DO UPDATE SET
    gpu_index = excluded.gpu_index, address = excluded.address, vendor = excluded.vendor, model = excluded.model,
    memory_bytes = excluded.memory_bytes, numa = excluded.numa, iommu_group = excluded.iommu_group,
    nvme_address = excluded.nvme_address, fabric_address = excluded.fabric_address, present = true,
    last_seen_at = now()
"""


async def insert(tx: Tx, sku_id: SkuId, wanted: SkuCreate) -> Sku:
    with conflicts(_NAMES):
        row = await tx.row(
            INSERT,
            sku_id,
            wanted.name,
            wanted.title,
            wanted.shape,
            wanted.gpu_vendor,
            wanted.gpu_model,
            wanted.gpu_memory_bytes,
            wanted.gpus_per_node,
            sorted(set(wanted.allowed_gpu_counts)),
            wanted.whole_node_only,
            wanted.needs_nvme,
            wanted.needs_fabric,
            wanted.region,
        )
    assert row is not None  # noqa: S101 # an insert without a conflict returns its row
    return decode(Sku, row)


async def get(tx: Tx, sku_id: SkuId) -> Sku:
    row = await tx.row(GET, sku_id)
    if row is None:
        raise Missing(Code.SKU_MISSING, "There is no such SKU.")
    return decode(Sku, row)


async def list_all(tx: Tx, *, after: UUID, state: SkuState | None, region: str | None, limit: int) -> list[Sku]:
    return decode_all(Sku, await tx.rows(LIST, after, state, region, limit))


async def update(
    tx: Tx,
    sku_id: SkuId,
    *,
    title: str | None,
    counts: Sequence[int] | None,
    whole_node_only: bool | None,
    state: SkuState | None,
) -> Sku:
    sources = [] if state is None else LIFE.sources(state)
    row = await tx.row(UPDATE, sku_id, title, counts, whole_node_only, state, sources)
    if row is None:
        raise Missing(Code.SKU_MISSING, "There is no such SKU.")
    return decode(Sku, row)


async def set_price(
    tx: Tx, sku_id: SkuId, *, currency: str, micros: int, valid_from: datetime | None, set_by: str
) -> Price:
    with conflicts(_FROM):
        row = await tx.row(SET_PRICE, new_id(), sku_id, currency, micros, valid_from, set_by)
    if row is None:
        raise Refused(Code.SKU_PRICE_INSTANT_REFUSED, "A price begins now or later, never in the past.")
    return decode(Price, row)


async def price(tx: Tx, price_id: UUID) -> Price:
    """A version that something was begun with: such a one stays."""
    row = await tx.row(PRICE, price_id)
    if row is None:
        raise Missing(Code.SKU_MISSING, "There is no such price.")
    return decode(Price, row)


async def prices(tx: Tx, sku_id: SkuId, *, after: UUID, limit: int) -> list[Price]:
    return decode_all(Price, await tx.rows(PRICES, sku_id, after, limit))


async def prices_now(tx: Tx, sku_ids: Sequence[SkuId]) -> dict[SkuId, Price]:
    """By SKU. A SKU has one currency at a time: the one whose price began last."""
    return {price.sku_id: price for price in decode_all(Price, await tx.rows(PRICES_NOW, list(sku_ids)))}


async def slots_of(tx: Tx, node_ids: Sequence[NodeId]) -> list[Slot]:
    return decode_all(Slot, await tx.rows(SLOTS, list(node_ids)))


async def any_held(tx: Tx, node_id: NodeId) -> bool:
    """Whether somebody has one of the node's GPUs."""
    return bool(await tx.value(ANY_HELD, node_id))


async def any_in_use(tx: Tx, node_id: NodeId) -> bool:
    """Whether somebody has one of them who has not left: one whose release failed has."""
    return bool(await tx.value(ANY_IN_USE, node_id))


async def dirty(tx: Tx, serial: str) -> bool:
    """In whatever slot it was: what is in a GPU goes with it."""
    return bool(await tx.value(DIRTY, serial))


async def cleaned(tx: Tx, serial: str) -> None:
    await tx.run(CLEANED, serial)


async def slots_called(tx: Tx, serials: Sequence[str]) -> list[Slot]:
    """Every slot, of any node, in which a GPU of one of these serial numbers was found last."""
    return decode_all(Slot, await tx.rows(SLOTS_CALLED, list(serials)))


async def hold_serials(tx: Tx, serials: Sequence[str]) -> None:
    """Until the transaction ends nobody else decides whose these GPUs are."""
    await tx.rows(HOLD_SERIALS, list(serials))


async def slot(tx: Tx, slot_id: UUID) -> Slot:
    row = await tx.row(SLOT, slot_id)
    if row is None:
        raise Missing(Code.SLOT_MISSING, "There is no such slot.")
    return decode(Slot, row)


async def seen(tx: Tx, node_id: NodeId, sku_id: SkuId, gpus: Sequence[Gpu]) -> list[str]:
    """The node has these GPUs now and no others; the serials of those that are gone."""
    rows = [
        (
            new_id(),
            node_id,
            gpu.serial,
            gpu.index,
            gpu.address,
            gpu.vendor,
            gpu.model,
            gpu.memory_bytes,
            gpu.numa,
            gpu.iommu_group,
            gpu.nvme,
            gpu.fabric,
        )
        for gpu in {gpu.serial: gpu for gpu in gpus}.values()
    ]
    if rows:
        await tx.run(SEEN, *map(list, zip(*rows, strict=True)), sku_id)
    return [row["serial"] for row in await tx.rows(ABSENT, node_id, [gpu.serial for gpu in gpus])]
