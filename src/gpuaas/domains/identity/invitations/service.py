"""The verbs of invitations. Always holds: an invitation is accepted once, by somebody whose issuer vouches for the
address it was sent to; a token is kept as a hash only."""

from datetime import timedelta

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.platform import InvitationCreated
from gpuaas.contracts.http.members import InvitationCreate
from gpuaas.domains.identity.invitations import store
from gpuaas.domains.identity.invitations.models import Invitation
from gpuaas.domains.identity.members import service as members
from gpuaas.domains.identity.members.ranks import require_rank
from gpuaas.domains.identity.orgs import service as orgs
from gpuaas.domains.identity.users import service as users
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import clock
from gpuaas.kit.errors import Conflict, Denied
from gpuaas.kit.ids import InvitationId, OrgId, UserId, new_id
from gpuaas.kit.secrets import INVITATION_PREFIX, new_token, token_hash

list_of_org = store.list_of_org


async def invitation_create(
    tx: Tx, actor: Actor, org_id: OrgId, wanted: InvitationCreate, *, days: int
) -> tuple[Invitation, str]:
    """The invitation, and the token that accepts it."""
    orgs.require_shared(await orgs.lock(tx, org_id))
    require_rank(await members.rank_now(tx, actor, org_id), wanted.role)
    if await store.is_member(tx, org_id, wanted.email):
        raise Conflict(Code.MEMBER_EXISTS, "This person is a member already. Change the role instead.")
    token = new_token(INVITATION_PREFIX)
    invitation = await store.insert(
        tx,
        InvitationId(new_id()),
        org_id,
        email=wanted.email,
        role=wanted.role,
        token_hash=token_hash(token),
        invited_by=UserId(actor.id or org_id),
        expires_at=clock.now() + timedelta(days=days),
    )
    tx.emit(InvitationCreated(invitation_id=invitation.id), subject_id=invitation.id)
    return invitation, token


async def invitation_revoke(tx: Tx, actor: Actor, org_id: OrgId, invitation_id: InvitationId) -> None:
    await orgs.lock(tx, org_id)
    invitation = await store.get_open(tx, org_id, invitation_id)
    require_rank(await members.rank_now(tx, actor, org_id), invitation.role)
    await store.revoke(tx, org_id, invitation_id)


async def invitation_accept(tx: Tx, user_id: UserId, token: str) -> Invitation:
    """Looked up across organisations by its token, accepted under the lock of its own."""
    await tx.enter_platform()
    invitation = await store.by_token(tx, token_hash(token))
    user = await users.user_get(tx, user_id)
    if not user.email_verified or user.email.lower() != invitation.email.lower():
        raise Denied(
            Code.INVITATION_NOT_FOR_YOU,
            "The invitation is for another email address, or yours is not verified. Log in with that one.",
        )
    await tx.enter_org(invitation.org_id)
    orgs.require_shared(await orgs.lock(tx, invitation.org_id))
    accepted = await store.accept(tx, invitation.org_id, invitation.id)
    await members.member_add(tx, invitation.org_id, user_id, accepted.role)
    return accepted
