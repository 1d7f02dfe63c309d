"""Organisations and projects on the wire."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import Name, Request, Response, Title
from gpuaas.contracts.permissions import Role
from gpuaas.kit.ids import OrgId, ProjectId


class OrgCreate(Request, frozen=True, kw_only=True):
    name: Name
    title: Title | None = None
    """What people read; the name, if absent."""


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


class ProjectCreate(Request, frozen=True, kw_only=True):
    name: Name
    title: Title | None = None


class ProjectUpdate(Request, frozen=True, kw_only=True):
    """What is absent stays as it is."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    title: Title | msgspec.UnsetType = msgspec.UNSET


class ProjectView(Response, frozen=True, kw_only=True):
    id: ProjectId
    org_id: UUID
    name: str
    title: str
    created_at: datetime
