"""Who may hand out, change or take away which role: nobody one above his own."""

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.permissions import RANK, PlatformRole, Role
from gpuaas.kit.errors import Denied
from gpuaas.kit.ids import OrgId, ProjectId

ABOVE_ALL = max(RANK.values()) + 1


def rank_of(actor: Actor, org_id: OrgId, project_id: ProjectId | None = None) -> int:
    if PlatformRole.ADMIN in actor.platform_roles:
        return ABOVE_ALL
    held = [actor.org_roles.get(org_id), actor.project_roles.get(project_id) if project_id else None]
    return max((RANK[role] for role in held if role is not None), default=0)


def require_rank(mine: int, *roles: Role) -> None:
    if any(RANK[role] > mine for role in roles):
        raise Denied(Code.ROLE_ABOVE_YOURS, "You cannot give, change or remove a role above your own.")
