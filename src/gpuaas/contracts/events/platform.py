"""Events of identity, policy and operations: stream PLATFORM."""

from uuid import UUID

from gpuaas.contracts.events.base import Event, Stream
from gpuaas.contracts.permissions import PlatformRole, Role


class UserCreated(Event, frozen=True, kw_only=True):
    NAME = "user.created"
    STREAM = Stream.PLATFORM
    user_id: UUID
    personal_org_id: UUID


class UserDisabled(Event, frozen=True, kw_only=True):
    NAME = "user.disabled"
    STREAM = Stream.PLATFORM
    user_id: UUID
    issuer: str
    subject: str


class UserEnabled(Event, frozen=True, kw_only=True):
    NAME = "user.enabled"
    STREAM = Stream.PLATFORM
    user_id: UUID


class PlatformRolesChanged(Event, frozen=True, kw_only=True):
    NAME = "user.platform_roles_changed"
    STREAM = Stream.PLATFORM
    user_id: UUID
    roles: list[PlatformRole]


class DataKeyRotated(Event, frozen=True, kw_only=True):
    """Sensitive fields are sealed with a new key from now on."""

    NAME = "platform.data_key_rotated"
    STREAM = Stream.PLATFORM
    key_id: UUID


class OrgCreated(Event, frozen=True, kw_only=True):
    NAME = "org.created"
    STREAM = Stream.PLATFORM
    org_id: UUID
    name: str


class OrgUpdated(Event, frozen=True, kw_only=True):
    NAME = "org.updated"
    STREAM = Stream.PLATFORM
    org_id: UUID


class OrgDeleted(Event, frozen=True, kw_only=True):
    NAME = "org.deleted"
    STREAM = Stream.PLATFORM
    org_id: UUID


class ProjectCreated(Event, frozen=True, kw_only=True):
    NAME = "project.created"
    STREAM = Stream.PLATFORM
    project_id: UUID
    name: str


class ProjectUpdated(Event, frozen=True, kw_only=True):
    NAME = "project.updated"
    STREAM = Stream.PLATFORM
    project_id: UUID


class ProjectDeleted(Event, frozen=True, kw_only=True):
    NAME = "project.deleted"
    STREAM = Stream.PLATFORM
    project_id: UUID


class MemberJoined(Event, frozen=True, kw_only=True):
    NAME = "member.joined"
    STREAM = Stream.PLATFORM
    user_id: UUID
    role: Role
    project_id: UUID | None = None


class MemberRoleChanged(Event, frozen=True, kw_only=True):
    NAME = "member.role_changed"
    STREAM = Stream.PLATFORM
    user_id: UUID
    role: Role
    project_id: UUID | None = None


class MemberRemoved(Event, frozen=True, kw_only=True):
    NAME = "member.removed"
    STREAM = Stream.PLATFORM
    user_id: UUID
    project_id: UUID | None = None


class InvitationCreated(Event, frozen=True, kw_only=True):
    NAME = "invitation.created"
    STREAM = Stream.PLATFORM
    invitation_id: UUID


class ServiceAccountCreated(Event, frozen=True, kw_only=True):
    NAME = "service_account.created"
    STREAM = Stream.PLATFORM
    service_account_id: UUID


class ServiceAccountDeleted(Event, frozen=True, kw_only=True):
    NAME = "service_account.deleted"
    STREAM = Stream.PLATFORM
    service_account_id: UUID


class PolicyChanged(Event, frozen=True, kw_only=True):
    NAME = "policy.changed"
    STREAM = Stream.PLATFORM
    key: str
    org_id: UUID | None = None
    project_id: UUID | None = None
