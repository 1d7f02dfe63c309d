"""Service accounts and their keys on the wire."""

from datetime import datetime
from typing import Annotated

import msgspec

from gpuaas.contracts.http.base import Name, OneTime, Request, Response, ShownOnce
from gpuaas.contracts.http.members import RoleBelowOwner
from gpuaas.contracts.permissions import Role
from gpuaas.kit.ids import KeyId, OrgId, ProjectId, ServiceAccountId

OperationId = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^(\*|[a-z][a-z0-9_]*)$(?!\n)")]
AllowList = Annotated[
    list[OperationId],
    msgspec.Meta(
        min_length=1,
        max_length=500,
        description="Operation ids it may call; '*' for all its role allows.",
        examples=[["project_list", "project_get"]],
    ),
]
Days = Annotated[int, msgspec.Meta(ge=1, le=3650)]


class ServiceAccountCreate(Request, frozen=True, kw_only=True):
    name: Name
    role: RoleBelowOwner
    allowed_operations: AllowList
    project_id: ProjectId | None = None
    """Its role is then held in this project only."""


class ServiceAccountUpdate(Request, frozen=True, kw_only=True):
    """What is absent stays as it is."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    role: RoleBelowOwner | msgspec.UnsetType = msgspec.UNSET
    allowed_operations: AllowList | msgspec.UnsetType = msgspec.UNSET


class ServiceAccountView(Response, frozen=True, kw_only=True):
    id: ServiceAccountId
    org_id: OrgId
    project_id: ProjectId | None
    name: str
    role: Role
    allowed_operations: list[str]
    created_at: datetime


class KeyCreate(Request, frozen=True, kw_only=True):
    expires_in_days: Days | None = None
    """90 if absent, or as many as the policy `identity.service_account_key_max_days` allows."""


class KeyRotate(Request, frozen=True, kw_only=True):
    overlap_seconds: Annotated[int, msgspec.Meta(ge=0, le=7 * 86_400)] = 3600
    """How long the old key still works."""
    expires_in_days: Days | None = None


class KeyView(Response, frozen=True, kw_only=True):
    id: KeyId
    hint: str
    """How the key begins."""
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None


class KeyCreated(ShownOnce, frozen=True, kw_only=True):
    id: KeyId
    key: OneTime
    hint: str
    expires_at: datetime
