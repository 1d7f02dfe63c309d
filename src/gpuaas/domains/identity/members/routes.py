"""Operations on members of organisations and projects."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Done, Page, PageQuery
from gpuaas.contracts.http.members import MemberUpdate, MemberView, ProjectMemberSet
from gpuaas.contracts.permissions import P, Role
from gpuaas.domains.identity.members import service
from gpuaas.domains.identity.members.models import Member
from gpuaas.infra.http.context import OrgContext, ProjectContext
from gpuaas.infra.http.listing import after, page
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import UserId

_CHANGE = (Code.MEMBER_MISSING, Code.LAST_OWNER, Code.ROLE_ABOVE_YOURS, Code.ORG_IS_PERSONAL)


def view(member: Member) -> MemberView:
    return MemberView(
        user_id=member.id, email=member.email, name=member.name, role=member.role, joined_at=member.joined_at
    )


@operation("GET", "/orgs/{org_id}/members", permission=P.MEMBERS_READ, lane=Lane.DEFAULT, tag="members")
async def member_list(cx: OrgContext, query: PageQuery) -> Page[MemberView]:
    """List an organisation's members and their roles."""
    rows = await service.list_of_org(cx.tx, cx.org_id, after=after(cx, query), limit=query.limit + 1)
    return page(cx, query, rows, view)


@operation(
    "PATCH",
    "/orgs/{org_id}/members/{user_id}",
    permission=P.MEMBERS_MANAGE,
    lane=Lane.DEFAULT,
    audit="member.update",
    tag="members",
    errors=_CHANGE,
)
async def member_update(cx: OrgContext, user_id: UserId, wanted: MemberUpdate) -> MemberView:
    """Change a member's role.

    You cannot touch a role above your own; the last owner stays owner. Lowering a role revokes the invitations its
    holder sent."""
    return view(await service.member_update(cx.tx, cx.actor, cx.org_id, user_id, wanted.role))


@operation(
    "DELETE",
    "/orgs/{org_id}/members/{user_id}",
    permission=P.MEMBERS_MANAGE,
    lane=Lane.DEFAULT,
    audit="member.remove",
    tag="members",
    errors=_CHANGE,
)
async def member_remove(cx: OrgContext, user_id: UserId) -> Done:
    """Take a member out of the organisation and all its projects."""
    await service.member_remove(cx.tx, cx.actor, cx.org_id, user_id)
    return Done()


@operation(
    "POST",
    "/orgs/{org_id}/leave",
    permission=P.ORGS_READ,
    lane=Lane.DEFAULT,
    audit="member.leave",
    tag="members",
    errors=(Code.MEMBER_MISSING, Code.LAST_OWNER, Code.ORG_IS_PERSONAL),
)
async def member_leave(cx: OrgContext) -> Done:
    """Leave an organisation. The last owner cannot."""
    await service.member_leave(cx.tx, cx.org_id, UserId(cx.user_id))
    return Done()


@operation("GET", "/projects/{project_id}/members", permission=P.MEMBERS_READ, lane=Lane.DEFAULT, tag="members")
async def project_member_list(cx: ProjectContext, query: PageQuery) -> Page[MemberView]:
    """List those who hold a role in this project, beside their role in the organisation."""
    rows = await service.list_of_project(cx.tx, cx.project_id, after=after(cx, query), limit=query.limit + 1)
    return page(cx, query, rows, view)


@operation(
    "PUT",
    "/projects/{project_id}/members/{user_id}",
    permission=P.MEMBERS_MANAGE,
    lane=Lane.DEFAULT,
    audit="project_member.set",
    tag="members",
    errors=(Code.MEMBER_MISSING, Code.ROLE_ABOVE_YOURS),
)
async def project_member_set(cx: ProjectContext, user_id: UserId, wanted: ProjectMemberSet) -> MemberView:
    """Give a member of the organisation a role in this project, or change it.

    The stronger of both roles counts."""
    role = Role(wanted.role)
    return view(await service.project_member_set(cx.tx, cx.actor, cx.org_id, cx.project_id, user_id, role))


@operation(
    "DELETE",
    "/projects/{project_id}/members/{user_id}",
    permission=P.MEMBERS_MANAGE,
    lane=Lane.DEFAULT,
    audit="project_member.remove",
    tag="members",
    errors=(Code.MEMBER_MISSING, Code.ROLE_ABOVE_YOURS),
)
async def project_member_remove(cx: ProjectContext, user_id: UserId) -> Done:
    """Take away a member's role in this project; the role in the organisation stays."""
    await service.project_member_remove(cx.tx, cx.actor, cx.org_id, cx.project_id, user_id)
    return Done()
