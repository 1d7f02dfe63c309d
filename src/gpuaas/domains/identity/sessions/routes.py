"""Operations on logins and sessions."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.sessions import (
    AuthConfig,
    CredentialRevoke,
    IssuerKeys,
    IssuerKeysRefreshed,
    LoginFinish,
    LoginStart,
    LoginStarted,
    RevokedCredential,
    SessionEnd,
    SessionEnded,
    SessionRefresh,
    SessionTokens,
    SessionView,
)
from gpuaas.contracts.permissions import P
from gpuaas.domains.identity.sessions import service
from gpuaas.infra.http.context import PlatformContext, PublicContext, UserContext
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.infra.oidc.verifier import TokenVerifier


@operation("GET", "/auth/config", lane=Lane.AUTH, transaction=False, tag="sessions")
async def auth_config_get(cx: PublicContext) -> AuthConfig:
    """Show where and as which client a command line logs a person in."""
    return cx.parts.get(AuthConfig)


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


async def _start(cx: PublicContext, wanted: LoginStart) -> service.Started:
    return await service.login_prepare(cx.parts, wanted.redirect_uri)


@operation(
    "POST",
    "/auth/login",
    lane=Lane.AUTH,
    audit="login.start",
    prepare=_start,
    tag="sessions",
    errors=(Code.REDIRECT_REFUSED,),
)
async def login_start(cx: PublicContext, wanted: LoginStart) -> LoginStarted:
    """Begin a login in the browser.

    Send the browser to `authorization_url`. It comes back to `redirect_uri` with a code and the same `state`; send both
    to `login_finish` within ten minutes. The PKCE verifier stays here, sealed."""
    started: service.Started = cx.prepared
    await service.login_start(cx.tx, started)
    return LoginStarted(authorization_url=started.authorization_url, state=started.state, expires_at=started.expires_at)


async def _finish(cx: PublicContext, wanted: LoginFinish) -> service.Session:
    return await service.finish_prepare(
        cx.db, cx.parts, code=wanted.authorization_code, state=wanted.state, client_ip=cx.client_ip
    )


@operation(
    "POST",
    "/auth/login/finish",
    lane=Lane.AUTH,
    audit="login.finish",
    prepare=_finish,
    tag="sessions",
    errors=(Code.LOGIN_FAILED, Code.LOGIN_STATE_UNKNOWN, Code.ACCOUNT_DISABLED),
)
async def login_finish(cx: PublicContext, wanted: LoginFinish) -> SessionTokens:
    """Finish a login: exchange the code the browser brought back for tokens.

    The first login of a subject creates its user and personal organisation. A code and its state work once."""
    return _tokens(cx, cx.prepared)


async def _refresh(cx: PublicContext, wanted: SessionRefresh) -> service.Session:
    return await service.refresh_prepare(cx.db, cx.parts, refresh_token=wanted.refresh_token, client_ip=cx.client_ip)


@operation(
    "POST",
    "/auth/refresh",
    lane=Lane.AUTH,
    audit="session.refresh",
    prepare=_refresh,
    tag="sessions",
    errors=(Code.REFRESH_REFUSED, Code.ACCOUNT_DISABLED),
)
async def session_refresh(cx: PublicContext, wanted: SessionRefresh) -> SessionTokens:
    """Exchange a refresh token for a new access token.

    Where the answer has a new refresh token, the old one is spent. A token is exchanged by one request at a time."""
    return _tokens(cx, cx.prepared)


async def _end(cx: UserContext, wanted: SessionEnd) -> bool:
    return await service.end_prepare(cx.parts, wanted.refresh_token, client_ip=cx.client_ip)


@operation("POST", "/auth/logout", permission=P.SELF, lane=Lane.AUTH, audit="session.end", prepare=_end, tag="sessions")
async def session_end(cx: UserContext, wanted: SessionEnd) -> SessionEnded:
    """Log out: the access token is refused within a second everywhere, the refresh token is revoked at the issuer."""
    await service.session_end(cx.tx, cx.actor)
    return SessionEnded(refresh_token_revoked=cx.prepared)


@operation(
    "POST",
    "/platform/revoked-credentials",
    permission=P.PLATFORM_MANAGE,
    lane=Lane.ADMIN,
    audit="credential.revoke",
    status=201,
    tag="sessions",
)
async def credential_revoke(cx: PlatformContext, wanted: CredentialRevoke) -> RevokedCredential:
    """Put a credential on the deny-list: it is refused within a second on every replica.

    For a token that got into wrong hands. A user is kept out by disabling him, a service account by revoking its
    keys."""
    revoked = await service.credential_revoke(cx.tx, wanted)
    return RevokedCredential(
        credential_id=revoked.credential_id,
        reason=revoked.reason,
        revoked_at=revoked.revoked_at,
        expires_at=revoked.expires_at,
    )


async def _keys(cx: PlatformContext) -> dict[str, list[str]]:
    return await service.keys_refresh(cx.db, cx.parts.get(TokenVerifier))


@operation(
    "POST",
    "/platform/issuer-keys/refresh",
    permission=P.PLATFORM_MANAGE,
    lane=Lane.ADMIN,
    audit="issuer_keys.refresh",
    prepare=_keys,
    tag="sessions",
)
async def issuer_keys_refresh(cx: PlatformContext) -> IssuerKeysRefreshed:
    """Break-glass: read the identity provider's signing keys now, on every replica.

    They are read every five minutes anyway, and when a token names an unknown one. Use this when a key was withdrawn
    because it got into wrong hands: tokens signed with it are refused within a second."""
    answered: dict[str, list[str]] = cx.prepared
    return IssuerKeysRefreshed(issuers=[IssuerKeys(issuer=url, key_ids=ids) for url, ids in sorted(answered.items())])


def _tokens(cx: PublicContext, session: service.Session) -> SessionTokens:
    cx.subject_id = session.actor.id
    return SessionTokens(
        access_token=session.tokens.access_token,
        refresh_token=session.tokens.refresh_token,
        expires_in_seconds=session.expires_in_seconds,
    )
