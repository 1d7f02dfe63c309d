"""Who is acting. An actor is a value made by the authority from a verified credential; nothing else makes one."""

from enum import StrEnum
from uuid import UUID

import msgspec

from gpuaas.contracts.permissions import PlatformRole, Role
from gpuaas.kit.ids import OrgId, ProjectId


class ActorKind(StrEnum):
    USER = "user"
    SERVICE_ACCOUNT = "service_account"
    NODE = "node"
    SYSTEM = "system"
    ANONYMOUS = "anonymous"


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    kind: ActorKind
    id: UUID | None
    name: str = ""
    email: str = ""
    platform_roles: frozenset[PlatformRole] = frozenset()
    org_roles: dict[OrgId, Role] = {}
    project_roles: dict[ProjectId, Role] = {}
    allowed_operations: frozenset[str] | None = None
    """None: whatever the roles allow. A service account always has a set ('*' in it: any)."""
    credential_id: str = ""
    """The token's jti or the key's id: what a revocation names."""
    issuer: str = ""
    expires_at: int = 0
    subject: str = ""
    """The id as text, or what stands for it: names the actor in rate lanes, logs and events."""

    def __post_init__(self) -> None:
        if not self.subject:
            msgspec.structs.force_setattr(self, "subject", str(self.id) if self.id else self.name)


ANONYMOUS = Actor(kind=ActorKind.ANONYMOUS, id=None, name="anonymous")


def system(name: str) -> Actor:
    """The product itself, acting by timer or event."""
    return Actor(kind=ActorKind.SYSTEM, id=None, name=name)
