"""Verbs of the catalogue: what is sold, and its prices over time."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.base import Page, PageQuery
from gpuaas.contracts.http.inventory import PriceSet, PriceView, SkuCreate, SkuQuery, SkuUpdate, SkuView

_FIRST_PAGE = PageQuery()


def sku_list(query: SkuQuery) -> Call[Page[SkuView]]:
    return Call(operation="sku_list", method="GET", path="/skus", answer=Page[SkuView], query=query)


def sku_get(sku_id: UUID) -> Call[SkuView]:
    return Call(operation="sku_get", method="GET", path=f"/skus/{sku_id}", answer=SkuView)


def sku_create(wanted: SkuCreate) -> Call[SkuView]:
    return Call(operation="sku_create", method="POST", path="/skus", answer=SkuView, body=wanted)


def sku_update(sku_id: UUID, wanted: SkuUpdate) -> Call[SkuView]:
    return Call(operation="sku_update", method="PATCH", path=f"/skus/{sku_id}", answer=SkuView, body=wanted)


def sku_price_set(sku_id: UUID, wanted: PriceSet) -> Call[PriceView]:
    path = f"/skus/{sku_id}/prices"
    return Call(operation="sku_price_set", method="POST", path=path, answer=PriceView, body=wanted)


def sku_price_list(sku_id: UUID, query: PageQuery = _FIRST_PAGE) -> Call[Page[PriceView]]:
    path = f"/skus/{sku_id}/prices"
    return Call(operation="sku_price_list", method="GET", path=path, answer=Page[PriceView], query=query)
