"""Rows of service accounts and their keys."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.permissions import Role
from gpuaas.kit.ids import KeyId, OrgId, ProjectId, ServiceAccountId


class ServiceAccount(msgspec.Struct, frozen=True):
    id: ServiceAccountId
    org_id: OrgId
    project_id: ProjectId | None
    name: str
    role: Role
    allowed_operations: list[str]
    created_by: UUID
    created_at: datetime


class Key(msgspec.Struct, frozen=True):
    id: KeyId
    service_account_id: ServiceAccountId
    hint: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None
