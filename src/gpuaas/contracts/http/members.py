"""Members and invitations on the wire."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from gpuaas.contracts.http.base import Email, OneTime, Request, Response, ShownOnce
from gpuaas.contracts.permissions import Role
from gpuaas.kit.ids import InvitationId, OrgId, UserId


class RoleBelowOwner(StrEnum):
    """Owners are of whole organisations, and people."""

    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"
    BILLING = "billing"


class MemberView(Response, frozen=True, kw_only=True):
    user_id: UserId
    email: str
    name: str
    role: Role
    joined_at: datetime


class MemberUpdate(Request, frozen=True, kw_only=True):
    role: Role


class ProjectMemberSet(Request, frozen=True, kw_only=True):
    role: RoleBelowOwner


class InvitationState(StrEnum):
    OPEN = "open"
    EXPIRED = "expired"
    ACCEPTED = "accepted"
    REVOKED = "revoked"


class InvitationCreate(Request, frozen=True, kw_only=True):
    email: Email
    role: Role = Role.MEMBER


class InvitationView(Response, frozen=True, kw_only=True):
    id: InvitationId
    email: str
    role: Role
    state: InvitationState
    created_at: datetime
    expires_at: datetime


class InvitationCreated(ShownOnce, frozen=True, kw_only=True):
    id: InvitationId
    email: str
    role: Role
    expires_at: datetime
    token: OneTime
    """Give it to the person invited: `invitation_accept` takes it."""


class InvitationAccept(Request, frozen=True, kw_only=True):
    token: Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$(?!\n)")]


class InvitationAccepted(Response, frozen=True, kw_only=True):
    org_id: OrgId
    role: Role
