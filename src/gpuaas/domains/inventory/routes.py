"""Operations on the catalogue. Everybody with a credential reads it; the platform writes it."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Page, PageQuery
from gpuaas.contracts.http.inventory import PriceSet, PriceView, SkuCreate, SkuQuery, SkuUpdate, SkuView
from gpuaas.contracts.permissions import P
from gpuaas.domains.inventory import service
from gpuaas.domains.inventory.models import Price, Sku
from gpuaas.infra.http.context import PlatformContext, UserContext
from gpuaas.infra.http.listing import after, page
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import SkuId

_GONE = (Code.SKU_MISSING,)


def price_view(price: Price) -> PriceView:
    return PriceView(
        id=price.id,
        currency=price.currency,
        micros_per_gpu_hour=price.micros_per_gpu_hour,
        valid_from=price.valid_from,
        set_by=price.set_by,
    )


def view(sku: Sku, price: Price | None) -> SkuView:
    return SkuView(
        id=sku.id,
        name=sku.name,
        title=sku.title,
        shape=sku.shape,
        gpu_vendor=sku.gpu_vendor,
        gpu_model=sku.gpu_model,
        gpu_memory_bytes=sku.gpu_memory_bytes,
        gpus_per_node=sku.gpus_per_node,
        allowed_gpu_counts=sku.allowed_gpu_counts,
        whole_node_only=sku.whole_node_only,
        needs_nvme=sku.needs_nvme,
        needs_fabric=sku.needs_fabric,
        region=sku.region,
        state=sku.state,
        price=price_view(price) if price else None,
        created_at=sku.created_at,
    )


@operation("GET", "/skus", permission=P.WHOAMI, lane=Lane.DEFAULT, tag="skus")
async def sku_list(cx: UserContext, query: SkuQuery) -> Page[SkuView]:
    """List what can be had, with today's prices."""
    rows = await service.skus(
        cx.tx, after=after(cx, query), state=query.state, region=query.region, limit=query.limit + 1
    )
    prices = await service.prices_now(cx.tx, [row.id for row in rows])
    return page(cx, query, rows, lambda sku: view(sku, prices.get(sku.id)))


@operation("GET", "/skus/{sku_id}", permission=P.WHOAMI, lane=Lane.DEFAULT, tag="skus", errors=_GONE)
async def sku_get(cx: UserContext, sku_id: UUID) -> SkuView:
    """Show a SKU."""
    sku = await service.sku_get(cx.tx, SkuId(sku_id))
    return view(sku, (await service.prices_now(cx.tx, [sku.id])).get(sku.id))


@operation(
    "POST",
    "/skus",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="sku.create",
    status=201,
    tag="skus",
    errors=(Code.SKU_NAME_TAKEN, Code.SKU_COUNTS_REFUSED),
)
async def sku_create(cx: PlatformContext, wanted: SkuCreate) -> SkuView:
    """Create a SKU with its first price."""
    return view(*await service.sku_create(cx.tx, cx.actor, wanted))


@operation(
    "PATCH",
    "/skus/{sku_id}",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="sku.update",
    tag="skus",
    errors=(*_GONE, Code.SKU_COUNTS_REFUSED),
)
async def sku_update(cx: PlatformContext, sku_id: UUID, wanted: SkuUpdate) -> SkuView:
    """Change a SKU's title or rules, retire it or offer it again.

    What it is made of and what it cost do not change: make another SKU."""
    sku = await service.sku_update(cx.tx, SkuId(sku_id), wanted)
    return view(sku, (await service.prices_now(cx.tx, [sku.id])).get(sku.id))


@operation(
    "POST",
    "/skus/{sku_id}/prices",
    permission=P.NODES_MANAGE,
    lane=Lane.FINANCIAL,
    audit="sku.price_set",
    status=201,
    tag="skus",
    errors=(*_GONE, Code.SKU_PRICE_EXISTS, Code.SKU_PRICE_INSTANT_REFUSED),
)
async def sku_price_set(cx: PlatformContext, sku_id: UUID, wanted: PriceSet) -> PriceView:
    """Set a price from an instant on. What runs keeps the price it began with."""
    return price_view(await service.price_set(cx.tx, cx.actor, SkuId(sku_id), wanted))


@operation("GET", "/skus/{sku_id}/prices", permission=P.WHOAMI, lane=Lane.DEFAULT, tag="skus", errors=_GONE)
async def sku_price_list(cx: UserContext, sku_id: UUID, query: PageQuery) -> Page[PriceView]:
    """List a SKU's prices over time."""
    await service.sku_get(cx.tx, SkuId(sku_id))
    rows = await service.price_list(cx.tx, SkuId(sku_id), after=after(cx, query), limit=query.limit + 1)
    return page(cx, query, rows, price_view)
