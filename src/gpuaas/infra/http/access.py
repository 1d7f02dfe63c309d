"""Who may: the one place that decides. Pure, over an actor's roles and the table in `contracts/permissions.py`."""

from gpuaas.contracts.actor import Actor, ActorKind
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.permissions import OF_ONESELF, PLATFORM_GRANTS, PLATFORM_ONLY, ROLE_GRANTS, Permission
from gpuaas.kit.errors import Denied
from gpuaas.kit.ids import OrgId, ProjectId


def check_allow_list(actor: Actor, operation_id: str) -> None:
    allowed = actor.allowed_operations
    if allowed is not None and operation_id not in allowed and "*" not in allowed:
        raise Denied(
            Code.OPERATION_NOT_IN_ALLOW_LIST, f"This service account's allow-list does not hold {operation_id}."
        )


def belongs(actor: Actor, org_id: OrgId, project_id: ProjectId | None = None) -> bool:
    """Whether the actor may know that this organisation or project exists."""
    return (
        org_id in actor.org_roles
        or (project_id is not None and project_id in actor.project_roles)
        or bool(actor.platform_roles)
    )


def permitted(
    actor: Actor, permission: Permission, org_id: OrgId | None = None, project_id: ProjectId | None = None
) -> bool:
    if permission in OF_ONESELF:
        return permission is Permission.WHOAMI or actor.kind is ActorKind.USER
    if any(permission in PLATFORM_GRANTS[role] for role in actor.platform_roles):
        return True
    if org_id is not None:
        role = actor.org_roles.get(org_id)
        if role is not None and permission in ROLE_GRANTS[role]:
            return True
    if project_id is not None:
        role = actor.project_roles.get(project_id)
        if role is not None and permission in ROLE_GRANTS[role]:
            return True
    return False


def require(
    actor: Actor, permission: Permission, org_id: OrgId | None = None, project_id: ProjectId | None = None
) -> None:
    if not permitted(actor, permission, org_id, project_id):
        # Without a place it is the platform's: an owner has the same permission, but of his organisation only.
        platforms = permission in PLATFORM_ONLY or (org_id is None and project_id is None)
        ask = "Only a platform role has it here." if platforms else "Ask an admin or owner."
        raise Denied(Code.PERMISSION_DENIED, f"This needs the permission {permission}. {ask}")
