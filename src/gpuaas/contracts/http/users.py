"""People on the wire: oneself, and all of them for the platform's admins."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import Email, PageQuery, Reason, Request, Response, Title
from gpuaas.contracts.permissions import PlatformRole, Role
from gpuaas.kit.ids import OrgId, ProjectId, UserId


class UserState(StrEnum):
    ACTIVE = "active"
    DISABLED = "disabled"


class OrgMembership(Response, frozen=True, kw_only=True):
    org_id: OrgId
    name: str
    title: str
    personal: bool
    role: Role


class ProjectMembership(Response, frozen=True, kw_only=True):
    project_id: ProjectId
    org_id: UUID
    name: str
    role: Role


class UserView(Response, frozen=True, kw_only=True):
    id: UserId
    email: str
    email_verified: bool
    name: str
    issuer: str
    subject: str
    state: UserState
    platform_roles: list[PlatformRole]
    created_at: datetime
    last_login_at: datetime


class MeView(UserView, frozen=True, kw_only=True):
    orgs: list[OrgMembership]
    projects: list[ProjectMembership]
    """Roles held in single projects, beside those of the organisation."""


class MeUpdate(Request, frozen=True, kw_only=True):
    name: Title


class UserQuery(PageQuery, frozen=True, kw_only=True):
    email: Email | None = None


class UserStateReason(Request, frozen=True, kw_only=True):
    reason: Reason


class PlatformRolesSet(Request, frozen=True, kw_only=True):
    roles: Annotated[list[PlatformRole], msgspec.Meta(max_length=8)]
    reason: Reason
