"""Operations on logins and sessions."""

from gpuaas.contracts.http.sessions import SessionView
from gpuaas.contracts.permissions import P
from gpuaas.infra.http.context import UserContext
from gpuaas.infra.http.operation import Lane, operation


@operation("GET", "/auth/session", permission=P.WHOAMI, lane=Lane.DEFAULT, transaction=False, tag="sessions")
async def session_get(cx: UserContext) -> SessionView:
    """Show who the credential speaks for, until when, and the id by which it can be revoked."""
    actor = cx.actor
    return SessionView(
        kind=actor.kind,
        id=cx.user_id,
        name=actor.name,
        email=actor.email,
        credential_id=actor.credential_id,
        platform_roles=sorted(actor.platform_roles),
        expires_at=actor.expires_at,
    )
