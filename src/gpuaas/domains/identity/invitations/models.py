"""Rows of invitations."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.http.members import InvitationState
from gpuaas.contracts.permissions import Role
from gpuaas.kit.ids import InvitationId, OrgId


class Invitation(msgspec.Struct, frozen=True):
    id: InvitationId
    org_id: OrgId
    email: str
    role: Role
    invited_by: UUID
    created_at: datetime
    expires_at: datetime
    accepted_at: datetime | None
    revoked_at: datetime | None

    def state_at(self, instant: datetime) -> InvitationState:
        """Follows from its times, so it cannot drift."""
        if self.accepted_at is not None:
            return InvitationState.ACCEPTED
        if self.revoked_at is not None:
            return InvitationState.REVOKED
        return InvitationState.OPEN if self.expires_at > instant else InvitationState.EXPIRED
