"""The catalogue: what can be had, and at which price from when on."""

from uuid import UUID

import msgspec

from gpuaas.client import inventory
from gpuaas.contracts.http.inventory import (
    PriceSet,
    PriceView,
    Shape,
    SkuCreate,
    SkuQuery,
    SkuState,
    SkuUpdate,
    SkuView,
)
from gpuaas.kit.paging import MAX_LIMIT
from gpuaas.processes.cli import names, quantities
from gpuaas.processes.cli.commands.audit import instant
from gpuaas.processes.cli.declare import ALL, LIMIT, Argument, Group, number
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.quantities import gib, micros, money
from gpuaas.processes.cli.run import Run

GROUP = Group("skus", "What can be had: the kinds of GPUs and hosts, with their prices. Everybody sees them.")
_SKU = Argument("sku", help="Its name or id.", completes="sku")
_COUNTS = Argument("--counts", help="How many GPUs may be asked for, with commas: 1,2,4,8.")
_CURRENCY = Argument("--currency", help="Three letters. Default: that of its price now, else USD.")
_STATES = tuple(state.value for state in SkuState)


def price_of(sku: SkuView) -> str:
    if sku.price is None:
        return "no price"
    return f"{money(sku.price.currency, sku.price.micros_per_gpu_hour)} per GPU-hour"


_COLUMNS: list[Column[SkuView]] = [
    ("name", lambda sku: sku.name),
    ("title", lambda sku: sku.title),
    ("gpus", lambda sku: f"{sku.gpus_per_node} × {sku.gpu_vendor} {sku.gpu_model}, {gib(sku.gpu_memory_bytes)}"),
    ("may ask for", lambda sku: "the whole node" if sku.whole_node_only else sku.allowed_gpu_counts),
    ("price", price_of),
    ("region", lambda sku: sku.region),
    ("state", lambda sku: sku.state),
    ("id", lambda sku: sku.id),
]
_DETAIL: list[Column[SkuView]] = [
    *_COLUMNS,
    ("shape", lambda sku: sku.shape),
    ("needs NVMe", lambda sku: sku.needs_nvme),
    ("needs fabric", lambda sku: sku.needs_fabric),
    ("priced since", lambda sku: sku.price.valid_from if sku.price else None),
    ("created", lambda sku: sku.created_at),
]
_PRICE_COLUMNS: list[Column[PriceView]] = [
    ("from", lambda price: price.valid_from),
    ("price", lambda price: f"{money(price.currency, price.micros_per_gpu_hour)} per GPU-hour"),
    ("set by", lambda price: price.set_by),
    ("id", lambda price: price.id),
]


def sku_of(run: Run, word: str) -> SkuView:
    """The SKU of that name or id."""
    known = names.as_id(word)
    if known is not None:
        return run.api.send(inventory.sku_get(known))
    listed = run.api.items(inventory.sku_list(SkuQuery(limit=MAX_LIMIT)))
    return names.pick(word, listed, lambda sku: sku.name, "SKU", "See them with: gpuaas skus list")


def sku_id(run: Run, word: str) -> UUID:
    return names.as_id(word) or sku_of(run, word).id


@GROUP.command(
    "list",
    Argument("--state", choices=_STATES, help="Only those."),
    Argument("--region", help="Only in this region."),
    LIMIT,
    ALL,
    summary="List what can be had, with today's prices.",
)
def sku_list(run: Run, *, state: str | None, region: str | None, limit: int, all: bool) -> None:
    query = SkuQuery(state=None if state is None else SkuState(state), region=region)
    empty = "There are no SKUs. An operator makes them: gpuaas skus create --help"
    run.table(inventory.sku_list(query), _COLUMNS, limit=limit, all=all, empty=empty)


@GROUP.command("show", _SKU, summary="Show a SKU with its price now.")
def sku_show(run: Run, *, sku: str) -> None:
    run.show(inventory.sku_get(sku_id(run, sku)), _DETAIL)


@GROUP.command(
    "create",
    Argument("name", help="Lower-case letters, digits and dashes."),
    Argument("--title", help="For people. Default: its GPUs."),
    Argument("--vendor", required=True, help="Of the GPU, such as NVIDIA."),
    Argument("--model", required=True, help="Of the GPU, such as H200; what nodes report has to contain it."),
    Argument("--memory", required=True, help="Of one GPU: 141GB, 140GiB."),
    Argument("--gpus", kind=number, required=True, help="In a node."),
    _COUNTS,
    Argument("--price", required=True, help="Per GPU and hour, such as 3.50."),
    Argument("--currency", default="USD", help="Three letters. Default: USD."),
    Argument("--region", required=True, help="Where it is."),
    Argument(
        "--shape", choices=tuple(Shape), default=Shape.GPU_SLICE.value, help="Slices of a node, or the bare host."
    ),
    Argument("--whole-node", flag=True, help="Only all GPUs of a node can be asked for."),
    Argument("--needs-nvme", flag=True, help="A node without an NVMe disk for each GPU is not it."),
    Argument("--needs-fabric", flag=True, help="A node without a fabric port for each GPU is not it."),
    summary="Create a SKU with its first price.",
    about="A node whose hardware is not that of its SKU is not sold, and says how it differs.",
    examples=[
        "gpuaas skus create h200-8 --vendor NVIDIA --model H200 --memory 141GB --gpus 8 --counts 1,2,4,8 "
        "--price 3.50 --region eu-1"
    ],
)
def sku_create(
    run: Run,
    *,
    name: str,
    title: str | None,
    vendor: str,
    model: str,
    memory: str,
    gpus: int,
    counts: str | None,
    price: str,
    currency: str,
    region: str,
    shape: str,
    whole_node: bool,
    needs_nvme: bool,
    needs_fabric: bool,
) -> None:
    wanted = SkuCreate(
        name=name,
        title=title or f"{gpus} × {model}",
        shape=Shape(shape),
        gpu_vendor=vendor,
        gpu_model=model,
        gpu_memory_bytes=quantities.memory(memory),
        gpus_per_node=gpus,
        allowed_gpu_counts=[gpus] if counts is None else counts_of(counts),
        whole_node_only=whole_node,
        needs_nvme=needs_nvme,
        needs_fabric=needs_fabric,
        region=region,
        currency=currency.upper(),
        micros_per_gpu_hour=micros(price),
    )
    run.show(inventory.sku_create(wanted), _DETAIL)


@GROUP.command(
    "update",
    _SKU,
    Argument("--title", help="A new title."),
    _COUNTS,
    Argument("--whole-node", choices=("yes", "no"), help="Whether only all GPUs of a node can be asked for."),
    Argument("--state", choices=_STATES, help="Retire it, or offer it again."),
    summary="Change a SKU's title or rules. What it is made of stays: make another for that.",
)
def sku_update(
    run: Run, *, sku: str, title: str | None, counts: str | None, whole_node: str | None, state: str | None
) -> None:
    wanted = SkuUpdate(
        title=msgspec.UNSET if title is None else title,
        allowed_gpu_counts=msgspec.UNSET if counts is None else counts_of(counts),
        whole_node_only=msgspec.UNSET if whole_node is None else whole_node == "yes",
        state=msgspec.UNSET if state is None else SkuState(state),
    )
    if wanted == SkuUpdate():
        raise UsageError("Nothing to change.", "Say --title, --counts, --whole-node or --state.")
    run.show(inventory.sku_update(sku_id(run, sku), wanted), _DETAIL)


@GROUP.command("retire", _SKU, summary="Offer a SKU no more. What runs goes on; `update --state active` undoes it.")
def sku_retire(run: Run, *, sku: str) -> None:
    run.show(inventory.sku_update(sku_id(run, sku), SkuUpdate(state=SkuState.RETIRED)), _DETAIL)


@GROUP.command(
    "price",
    _SKU,
    Argument("amount", help="Per GPU and hour, such as 3.50."),
    _CURRENCY,
    Argument("--from", called="since", help="When it begins: 2026-01-31, 2026-01-31T08:00Z. Default: now."),
    summary="Set a price, from now or later on. What runs keeps the price it began with.",
    examples=["gpuaas skus price h200-8 3.20 --from 2027-01-01"],
)
def sku_price_set(run: Run, *, sku: str, amount: str, currency: str | None, since: str | None) -> None:
    price, begins = micros(amount), instant(since)
    found = sku_of(run, sku)
    now = found.price.currency if found.price else "USD"
    wanted = PriceSet(currency=(currency or now).upper(), micros_per_gpu_hour=price, valid_from=begins)
    run.show(inventory.sku_price_set(found.id, wanted), _PRICE_COLUMNS)


@GROUP.command("prices", _SKU, LIMIT, ALL, summary="List a SKU's prices over time, those to come too.")
def sku_price_list(run: Run, *, sku: str, limit: int, all: bool) -> None:
    call = inventory.sku_price_list(sku_id(run, sku))
    run.table(
        call, _PRICE_COLUMNS, limit=limit, all=all, empty="It has no price. Set one: gpuaas skus price SKU AMOUNT"
    )


def counts_of(text: str) -> list[int]:
    """Numbers of GPUs, written with commas."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 0 < len(part) < 4 for part in parts):
        raise UsageError(f"{text!r} is not a list of numbers.", "Write 1,2,4,8.")
    return [int(part) for part in parts]
