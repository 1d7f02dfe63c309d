"""The verbs of the catalogue and of slots."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import UNSET

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.inventory import PriceSet, SkuCreate, SkuUpdate
from gpuaas.contracts.tasks.topology import Topology
from gpuaas.domains.inventory import store
from gpuaas.domains.inventory.hardware import Difference, differences
from gpuaas.domains.inventory.models import Price, Sku
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import clock
from gpuaas.kit.errors import Detail, Refused
from gpuaas.kit.ids import NodeId, SkuId, new_id

MOST_AHEAD = timedelta(days=3650)

sku_get = store.get
skus = store.list_all
price_get = store.price
price_list = store.prices
prices_now = store.prices_now
slots_of = store.slots_of
slot_get = store.slot
any_held = store.any_held
any_in_use = store.any_in_use
gpu_dirty = store.dirty
gpu_cleaned = store.cleaned
slots_called = store.slots_called
hold_serials = store.hold_serials


async def sku_create(tx: Tx, actor: Actor, wanted: SkuCreate) -> tuple[Sku, Price]:
    _check_counts(wanted.allowed_gpu_counts, wanted.gpus_per_node)
    sku = await store.insert(tx, SkuId(new_id()), wanted)
    price = await store.set_price(
        tx,
        sku.id,
        currency=wanted.currency,
        micros=wanted.micros_per_gpu_hour,
        valid_from=None,
        set_by=actor.email or actor.name,
    )
    return sku, price


async def sku_update(tx: Tx, sku_id: SkuId, wanted: SkuUpdate) -> Sku:
    counts = None if wanted.allowed_gpu_counts is UNSET else sorted(set(wanted.allowed_gpu_counts))
    if counts is not None:
        _check_counts(counts, (await store.get(tx, sku_id)).gpus_per_node)
    return await store.update(
        tx,
        sku_id,
        counts=counts,
        title=None if wanted.title is UNSET else wanted.title,
        whole_node_only=None if wanted.whole_node_only is UNSET else wanted.whole_node_only,
        state=None if wanted.state is UNSET else wanted.state,
    )


async def price_set(tx: Tx, actor: Actor, sku_id: SkuId, wanted: PriceSet) -> Price:
    await store.get(tx, sku_id)
    if wanted.valid_from is not None:
        _check_instant(wanted.valid_from)
    return await store.set_price(
        tx,
        sku_id,
        currency=wanted.currency,
        micros=wanted.micros_per_gpu_hour,
        valid_from=wanted.valid_from,
        set_by=actor.email or actor.name,
    )


async def slots_observed(tx: Tx, node_id: NodeId, sku_id: SkuId, topology: Topology) -> list[Difference]:
    """Take over what inspection found, and say how it differs from what the SKU promises."""
    sku = await store.get(tx, sku_id)
    found = differences(sku, topology)
    gone = await store.seen(tx, node_id, sku_id, topology.gpus)
    return found + [Difference(f"GPU {serial}", "present", "gone") for serial in gone]


def _check_instant(at: datetime) -> None:
    """One that means the same to everybody, and that somebody will see."""
    reason = (
        "it has no zone" if at.tzinfo is None else "" if abs(at - clock.now()) <= MOST_AHEAD else "it is too far away"
    )
    if reason:
        message = "A price begins at an instant with a zone, within ten years."
        raise Refused(Code.SKU_PRICE_INSTANT_REFUSED, message, details=[Detail("valid_from", reason)])


def _check_counts(counts: Sequence[int], gpus_per_node: int) -> None:
    if max(counts) > gpus_per_node:
        raise Refused(
            Code.SKU_COUNTS_REFUSED,
            "A count of GPUs is larger than what a node has.",
            details=[Detail("allowed_gpu_counts", f"at most {gpus_per_node}, the GPUs of a node")],
        )
