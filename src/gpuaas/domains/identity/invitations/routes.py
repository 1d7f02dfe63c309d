"""Operations on invitations."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Done, Page, PageQuery
from gpuaas.contracts.http.members import (
    InvitationAccept,
    InvitationAccepted,
    InvitationCreate,
    InvitationCreated,
    InvitationView,
)
from gpuaas.contracts.permissions import P
from gpuaas.domains.identity.invitations import service
from gpuaas.domains.identity.invitations.models import Invitation
from gpuaas.infra.http.context import OrgContext, UserContext
from gpuaas.infra.http.listing import after, page
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit import clock
from gpuaas.kit.ids import InvitationId, UserId


def view(invitation: Invitation) -> InvitationView:
    return InvitationView(
        id=invitation.id,
        email=invitation.email,
        role=invitation.role,
        state=invitation.state_at(clock.now()),
        created_at=invitation.created_at,
        expires_at=invitation.expires_at,
    )


@operation(
    "POST",
    "/orgs/{org_id}/invitations",
    permission=P.MEMBERS_MANAGE,
    lane=Lane.DEFAULT,
    audit="invitation.create",
    status=201,
    tag="invitations",
    errors=(Code.INVITATION_EXISTS, Code.MEMBER_EXISTS, Code.ROLE_ABOVE_YOURS, Code.ORG_IS_PERSONAL),
)
async def invitation_create(cx: OrgContext, wanted: InvitationCreate) -> InvitationCreated:
    """Invite somebody by email address.

    The token is shown once; whoever logs in with that address, verified, can accept with it. The policy
    `identity.invitation_days` says for how long."""
    days = cx.policy.number("identity.invitation_days", cx.org_id)
    made, token = await service.invitation_create(cx.tx, cx.actor, cx.org_id, wanted, days=days)
    return InvitationCreated(id=made.id, email=made.email, role=made.role, expires_at=made.expires_at, token=token)


@operation("GET", "/orgs/{org_id}/invitations", permission=P.MEMBERS_MANAGE, lane=Lane.DEFAULT, tag="invitations")
async def invitation_list(cx: OrgContext, query: PageQuery) -> Page[InvitationView]:
    """List an organisation's invitations and what became of them."""
    rows = await service.list_of_org(cx.tx, cx.org_id, after=after(cx, query), limit=query.limit + 1)
    return page(cx, query, rows, view)


@operation(
    "DELETE",
    "/orgs/{org_id}/invitations/{invitation_id}",
    permission=P.MEMBERS_MANAGE,
    lane=Lane.DEFAULT,
    audit="invitation.revoke",
    tag="invitations",
    errors=(Code.INVITATION_MISSING, Code.ROLE_ABOVE_YOURS),
)
async def invitation_revoke(cx: OrgContext, invitation_id: InvitationId) -> Done:
    """Take back an invitation that is still open."""
    await service.invitation_revoke(cx.tx, cx.actor, cx.org_id, invitation_id)
    return Done()


@operation(
    "POST",
    "/invitations/accept",
    permission=P.SELF,
    lane=Lane.AUTH,
    audit="invitation.accept",
    tag="invitations",
    errors=(
        Code.INVITATION_MISSING,
        Code.INVITATION_NOT_FOR_YOU,
        Code.MEMBER_EXISTS,
        Code.ORG_MISSING,
        Code.ORG_IS_PERSONAL,
    ),
)
async def invitation_accept(cx: UserContext, wanted: InvitationAccept) -> InvitationAccepted:
    """Join the organisation you were invited to.

    Your verified email address must be the one that was invited."""
    accepted = await service.invitation_accept(cx.tx, UserId(cx.user_id), wanted.token)
    return InvitationAccepted(org_id=accepted.org_id, role=accepted.role)
