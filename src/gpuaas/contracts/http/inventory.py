"""The catalogue: what is sold, and at which price from when on."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import Name, PageQuery, Request, Response, Title

GpuCount = Annotated[int, msgspec.Meta(ge=1, le=64)]
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._/-]*$(?!\n)")]
Region = Annotated[
    str, msgspec.Meta(min_length=1, max_length=40, pattern=r"^[a-z0-9][a-z0-9-]*$(?!\n)", examples=["eu-1"])
]
Currency = Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{3}$(?!\n)", max_length=3, examples=["USD"])]
Micros = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000_000, description="Millionths of the currency.")]


class Shape(StrEnum):
    BAREMETAL = "baremetal"
    GPU_SLICE = "gpu_slice"


class SkuState(StrEnum):
    ACTIVE = "active"
    RETIRED = "retired"


class SkuCreate(Request, frozen=True, kw_only=True):
    name: Name
    title: Title
    shape: Shape
    gpu_vendor: Word
    gpu_model: Word
    gpu_memory_bytes: Annotated[int, msgspec.Meta(ge=1 << 30, le=1 << 45)]
    gpus_per_node: GpuCount
    allowed_gpu_counts: Annotated[list[GpuCount], msgspec.Meta(min_length=1, max_length=64)]
    """How many GPUs of a node may be asked for."""
    whole_node_only: bool = False
    needs_nvme: bool = False
    needs_fabric: bool = False
    region: Region
    currency: Currency = "USD"
    micros_per_gpu_hour: Micros


class SkuUpdate(Request, frozen=True, kw_only=True):
    title: Title | msgspec.UnsetType = msgspec.UNSET
    allowed_gpu_counts: Annotated[list[GpuCount], msgspec.Meta(min_length=1, max_length=64)] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    whole_node_only: bool | msgspec.UnsetType = msgspec.UNSET
    state: SkuState | msgspec.UnsetType = msgspec.UNSET


class PriceSet(Request, frozen=True, kw_only=True):
    currency: Currency = "USD"
    micros_per_gpu_hour: Micros
    valid_from: datetime | None = None
    """Not before now; left out: from now on."""


class PriceView(Response, frozen=True, kw_only=True):
    id: UUID
    currency: str
    micros_per_gpu_hour: int
    valid_from: datetime
    set_by: str


class SkuView(Response, frozen=True, kw_only=True):
    id: UUID
    name: str
    title: str
    shape: Shape
    gpu_vendor: str
    gpu_model: str
    gpu_memory_bytes: int
    gpus_per_node: int
    allowed_gpu_counts: list[int]
    whole_node_only: bool
    needs_nvme: bool
    needs_fabric: bool
    region: str
    state: SkuState
    price: PriceView | None
    """What holds now."""
    created_at: datetime


class SkuQuery(PageQuery, frozen=True, kw_only=True):
    state: SkuState | None = None
    region: Region | None = None
