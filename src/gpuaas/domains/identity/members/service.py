"""The verbs of membership.

Always holds: an organisation keeps an owner, also when all of them leave at once; nobody touches a role above his own;
ranks are those of the moment, read under the organisation's lock, not those of the token."""

import msgspec

from gpuaas.contracts.actor import Actor, ActorKind
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.platform import MemberJoined, MemberRemoved, MemberRoleChanged
from gpuaas.contracts.permissions import RANK, PlatformRole, Role
from gpuaas.domains.identity.members import store
from gpuaas.domains.identity.members.models import Member
from gpuaas.domains.identity.members.ranks import ABOVE_ALL, rank_of, require_rank
from gpuaas.domains.identity.orgs import service as orgs
from gpuaas.domains.identity.projects import service as projects
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Conflict, Missing
from gpuaas.kit.ids import OrgId, ProjectId, UserId

list_of_org = store.list_of_org
list_of_project = store.list_of_project
invitations_drop = store.drop_invitations
recipients = store.recipients


async def rank_now(tx: Tx, actor: Actor, org_id: OrgId) -> int:
    """The actor's rank in the organisation as the database has it now; call it under the lock."""
    if actor.kind is not ActorKind.USER or PlatformRole.ADMIN in actor.platform_roles:
        return rank_of(actor, org_id)
    member = await store.find(tx, org_id, UserId(actor.id)) if actor.id else None
    return RANK[member.role] if member else 0


async def member_add(tx: Tx, org_id: OrgId, user_id: UserId, role: Role) -> None:
    """Under the organisation's lock."""
    await store.add(tx, org_id, user_id, role)
    tx.emit(MemberJoined(user_id=user_id, role=role), subject_id=user_id)


async def member_update(tx: Tx, actor: Actor, org_id: OrgId, user_id: UserId, role: Role) -> Member:
    orgs.require_shared(await orgs.lock(tx, org_id))
    member = await store.get(tx, org_id, user_id)
    require_rank(await rank_now(tx, actor, org_id), member.role, role)
    if member.role is role:
        return member
    await _keep_an_owner(tx, org_id, member)
    await store.set_role(tx, org_id, user_id, role)
    if RANK[role] < RANK[member.role]:
        await store.drop_invitations(tx, org_id, user_id)
    tx.emit(MemberRoleChanged(user_id=user_id, role=role), subject_id=user_id)
    return msgspec.structs.replace(member, role=role)


async def member_remove(tx: Tx, actor: Actor, org_id: OrgId, user_id: UserId) -> None:
    orgs.require_shared(await orgs.lock(tx, org_id))
    member = await store.get(tx, org_id, user_id)
    require_rank(await rank_now(tx, actor, org_id), member.role)
    await _remove(tx, org_id, member)


async def member_leave(tx: Tx, org_id: OrgId, user_id: UserId) -> None:
    orgs.require_shared(await orgs.lock(tx, org_id))
    await _remove(tx, org_id, await store.get(tx, org_id, user_id))


async def _remove(tx: Tx, org_id: OrgId, member: Member) -> None:
    """His roles in projects go with it, and the invitations he sent."""
    await _keep_an_owner(tx, org_id, member)
    await store.remove(tx, org_id, member.id)
    await store.drop_invitations(tx, org_id, member.id)
    tx.emit(MemberRemoved(user_id=member.id), subject_id=member.id)


async def _keep_an_owner(tx: Tx, org_id: OrgId, member: Member) -> None:
    if member.role is Role.OWNER and not await store.has_other_owner(tx, org_id, member.id):
        raise Conflict(Code.LAST_OWNER, "An organisation keeps at least one owner. Make another member owner first.")


async def project_member_set(
    tx: Tx, actor: Actor, org_id: OrgId, project_id: ProjectId, user_id: UserId, role: Role
) -> Member:
    await projects.project_lock(tx, project_id)
    before = await store.find_in_project(tx, project_id, user_id)
    require_rank(await _project_rank_now(tx, actor, org_id, project_id), *([before.role] if before else []), role)
    member = await store.set_in_project(tx, org_id, project_id, user_id, role)
    if before is None:
        tx.emit(MemberJoined(user_id=user_id, role=role, project_id=project_id), subject_id=user_id)
    elif before.role is not role:
        tx.emit(MemberRoleChanged(user_id=user_id, role=role, project_id=project_id), subject_id=user_id)
    return member


async def project_member_remove(tx: Tx, actor: Actor, org_id: OrgId, project_id: ProjectId, user_id: UserId) -> None:
    await projects.project_lock(tx, project_id)
    member = await store.find_in_project(tx, project_id, user_id)
    if member is None:
        raise Missing(Code.MEMBER_MISSING, "There is no such member here.")
    require_rank(await _project_rank_now(tx, actor, org_id, project_id), member.role)
    await store.remove_from_project(tx, project_id, user_id)
    tx.emit(MemberRemoved(user_id=user_id, project_id=project_id), subject_id=user_id)


async def _project_rank_now(tx: Tx, actor: Actor, org_id: OrgId, project_id: ProjectId) -> int:
    in_org = await rank_now(tx, actor, org_id)
    if actor.kind is not ActorKind.USER or in_org == ABOVE_ALL or actor.id is None:
        return rank_of(actor, org_id, project_id)
    member = await store.find_in_project(tx, project_id, UserId(actor.id))
    return max(in_org, RANK[member.role] if member else 0)
