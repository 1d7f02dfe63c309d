"""Organisations and projects on the wire."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import Name, PageQuery, Request, Response, Title
from gpuaas.contracts.http.patterns import LINE
from gpuaas.contracts.permissions import Role
from gpuaas.kit.ids import OrgId, ProjectId


class OrgCreate(Request, frozen=True, kw_only=True):
    name: Name
    title: Title | None = None
    """What people read; the name, if absent."""


class OrgQuery(PageQuery, frozen=True, kw_only=True):
    name: Name | None = None


class OrgUpdate(Request, frozen=True, kw_only=True):
    """What is absent stays as it is."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    title: Title | msgspec.UnsetType = msgspec.UNSET


class OrgView(Response, frozen=True, kw_only=True):
    id: OrgId
    name: str
    title: str
    personal: bool
    """A personal organisation has one member and stays as long as its user."""
    created_at: datetime
    role: Role | None
    """The asker's role in it; null for those who are not members (platform roles)."""


CostCentre = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=100,
        pattern=LINE,
        description="What the customer's own accounting calls it; on the lines of statements and invoices.",
        examples=["R&D-4711"],
    ),
]


class ProjectCreate(Request, frozen=True, kw_only=True):
    name: Name
    title: Title | None = None
    cost_centre: CostCentre | None = None


class ProjectUpdate(Request, frozen=True, kw_only=True):
    """What is absent stays as it is."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    title: Title | msgspec.UnsetType = msgspec.UNSET
    cost_centre: CostCentre | msgspec.UnsetType | None = msgspec.UNSET
    """Null: it has none any more."""


class ProjectView(Response, frozen=True, kw_only=True):
    id: ProjectId
    org_id: UUID
    name: str
    title: str
    cost_centre: str = ""
    """Empty: it has none."""
    created_at: datetime
