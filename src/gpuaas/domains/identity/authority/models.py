"""What one look at the database says about a credential."""

from datetime import datetime

import msgspec

from gpuaas.contracts.http.users import UserState
from gpuaas.contracts.permissions import PlatformRole, Role
from gpuaas.kit.ids import KeyId, OrgId, ProjectId, ServiceAccountId, UserId


class Standing(msgspec.Struct, frozen=True):
    """Common to all credentials."""

    revoked: bool
    marked_at: datetime | None
    """When all replicas were last told to read the issuer's keys again."""


class UserStanding(Standing, frozen=True):
    id: UserId | None
    """None: the subject has never logged in."""
    name: str | None
    email: str | None
    state: UserState | None
    platform_roles: list[PlatformRole] | None
    stale: bool | None
    """His last login was noted more than a minute ago, or his address has changed."""
    org_roles: dict[OrgId, Role]
    project_roles: dict[ProjectId, Role]


class KeyStanding(Standing, frozen=True):
    key_id: KeyId
    expires_at: datetime
    expired: bool
    stale: bool
    id: ServiceAccountId
    name: str
    org_id: OrgId
    project_id: ProjectId | None
    role: Role
    allowed_operations: frozenset[str]
