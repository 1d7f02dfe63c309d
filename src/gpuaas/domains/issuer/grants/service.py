"""Verbs about codes and tokens.

Always holds: a code and a refresh token work once. Used again, everything that followed from them is ended, and the
live access tokens go onto the deny-list. A code dies with the session it was given for. One exception: a refresh token
that was spent less than GRACE_SECONDS ago and whose successor nobody has used: the client's own two requests raced. It
is refused, nothing ends. One that was spent longer ago than a session may lie unused is
forgotten: refused as unknown."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.tokens import ACCESS_TOKEN_TYPE
from gpuaas.domains.identity.sessions import service as credentials
from gpuaas.domains.issuer import claims
from gpuaas.domains.issuer.accounts.models import Account
from gpuaas.domains.issuer.authorization import AuthorizationRequest, bad_scope, proves, well_formed_verifier
from gpuaas.domains.issuer.clients import Client
from gpuaas.domains.issuer.grants import store
from gpuaas.domains.issuer.grants.models import Code, Family, RefreshToken, Tokens
from gpuaas.domains.issuer.models import Desk
from gpuaas.domains.issuer.oauth import Error, OAuthRefusal
from gpuaas.domains.issuer.sessions import service as sessions
from gpuaas.domains.issuer.sessions.models import Session
from gpuaas.infra.postgres.tx import Tx
from gpuaas.infra.signing import Purpose
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from gpuaas.kit.secrets import REFRESH_PREFIX, new_token, token_hash

CODE_SECONDS = 60
GRACE_SECONDS = 10
MAX_TOKEN = 4096


async def code_issue(tx: Tx, request: AuthorizationRequest, session: Session) -> str:
    code = new_token()
    await store.add_code(
        tx,
        token_hash(code),
        Code(
            client_id=request.client.id,
            redirect_uri=request.redirect_uri,
            account_id=session.account_id,
            session_id=session.id,
            scopes=request.scopes,
            nonce=request.nonce,
            code_challenge=request.code_challenge,
            auth_time=session.auth_time,
            used_at=None,
            family_id=None,
        ),
        seconds=CODE_SECONDS,
    )
    return code


async def code_redeem(
    tx: Tx, desk: Desk, client: Client, *, code: str, redirect_uri: str, verifier: str
) -> tuple[Family, str | None]:
    """The family a code begins, and the nonce for its ID token. A code that was tried is spent, right or wrong."""
    if not well_formed_verifier(verifier):
        raise OAuthRefusal(Error.INVALID_REQUEST, "code_verifier is missing or malformed (PKCE)")
    family_id, key = store.new_family_id(), token_hash(code)
    found = await store.use_code(tx, key, client.id, family_id)
    if found is None:
        await _end_what_code_began(tx, key, client)
        raise OAuthRefusal(Error.INVALID_GRANT, "the code is not known, has expired or belongs to another client")
    if not await sessions.session_hold(tx, found.session_id):
        raise OAuthRefusal(Error.INVALID_GRANT, "the login this code came from has ended", happened="refused")
    if redirect_uri != found.redirect_uri:
        raise OAuthRefusal(Error.INVALID_GRANT, "redirect_uri is not the one that was asked for", happened="refused")
    if not proves(verifier, found.code_challenge):
        raise OAuthRefusal(Error.INVALID_GRANT, "code_verifier does not match the code_challenge", happened="refused")
    family = await store.add_family(
        tx,
        family_id,
        account_id=found.account_id,
        client_id=client.id,
        session_id=found.session_id,
        scopes=found.scopes,
        auth_time=found.auth_time,
        days=desk.refresh_token_days,
    )
    return family, found.nonce


async def _end_what_code_began(tx: Tx, key: bytes, client: Client) -> None:
    used = await store.used_code(tx, key, client.id)
    if used is not None and used.family_id is not None:
        await family_end(tx, used.family_id, "code used twice")
        raise OAuthRefusal(
            Error.INVALID_GRANT, "the code was used before; what it gave is revoked", happened="code used twice"
        )


async def family_begin(
    tx: Tx,
    desk: Desk,
    client: Client,
    *,
    account_id: UUID,
    session_id: UUID | None,
    scopes: list[str],
    auth_time: datetime,
) -> Family:
    return await store.add_family(
        tx,
        store.new_family_id(),
        account_id=account_id,
        client_id=client.id,
        session_id=session_id,
        scopes=scopes,
        auth_time=auth_time,
        days=desk.refresh_token_days,
    )


async def refresh_redeem(
    tx: Tx, desk: Desk, client: Client, *, token: str, scope: str | None
) -> tuple[Family, list[str], str]:
    """Spend a refresh token: its family, the scopes asked for, and the successor."""
    key = token_hash(token)
    found = await store.find_refresh(tx, key, GRACE_SECONDS) if len(token) <= MAX_TOKEN else None
    if found is None or found.client_id != client.id:
        raise OAuthRefusal(Error.INVALID_GRANT, "the refresh token is not known or belongs to another client")
    scopes = _narrowed(found.scopes, scope)
    family = await store.touch_family(tx, found.family_id, desk.refresh_token_days)
    if family is None:
        raise OAuthRefusal(Error.INVALID_GRANT, "the session has ended; log in again")
    successor = new_token(REFRESH_PREFIX)
    if not await store.spend_refresh(tx, key, token_hash(successor)):
        await _spent_before(tx, key)
    await store.add_refresh(tx, token_hash(successor), family.id)
    return family, scopes, successor


async def _spent_before(tx: Tx, key: bytes) -> None:
    """Somebody was faster: a second request of the same client a moment ago, or a thief."""
    spent = await store.find_refresh(tx, key, GRACE_SECONDS)
    if spent is None:
        raise OAuthRefusal(Error.INVALID_GRANT, "the refresh token is not known")
    if lost_race(spent):
        raise OAuthRefusal(Error.INVALID_GRANT, "the refresh token was used a moment ago; use the one that request got")
    await family_end(tx, spent.family_id, "refresh token used twice")
    raise OAuthRefusal(
        Error.INVALID_GRANT,
        "the refresh token was used before; the session is revoked, log in again",
        happened="refresh token used twice",
    )


def lost_race(spent: RefreshToken) -> bool:
    return spent.just_used and not spent.successor_used


def _narrowed(granted: list[str], scope: str | None) -> list[str]:
    if scope is None:
        return granted
    asked = scope.split(" ")
    if bad_scope(scope) or not set(asked) <= set(granted):
        raise OAuthRefusal(Error.INVALID_SCOPE, "scope asks for more than was granted")
    return [known for known in granted if known in asked]


async def tokens_mint(
    tx: Tx,
    desk: Desk,
    family: Family,
    account: Account,
    *,
    scopes: list[str],
    nonce: str | None = None,
    refresh_token: str | None = None,
) -> Tokens:
    """What a client gets. Without a successor in hand, the family's first refresh token is made here."""
    signer = await desk.keys.signer(tx, Purpose.ISSUER)
    now, seconds, jti = clock.now(), desk.access_token_seconds, new_id().hex
    issued = int(now.timestamp())
    access_token = signer.token(
        claims.access(
            account.person,
            issuer=desk.issuer.url,
            client_id=family.client_id,
            scopes=scopes,
            sid=family.sid,
            jti=jti,
            now=issued,
            seconds=seconds,
        ),
        typ=ACCESS_TOKEN_TYPE,
    )
    await store.add_access(tx, jti, family.id, now + timedelta(seconds=seconds))
    if refresh_token is None:
        refresh_token = new_token(REFRESH_PREFIX)
        await store.add_refresh(tx, token_hash(refresh_token), family.id)
    id_token = (
        signer.token(
            claims.identity(
                account.person,
                issuer=desk.issuer.url,
                client_id=family.client_id,
                scopes=scopes,
                sid=family.sid,
                nonce=nonce,
                auth_time=family.auth_time,
                access_token=access_token,
                now=issued,
                seconds=seconds,
            ),
            typ=claims.ID_TYP,
        )
        if "openid" in scopes
        else msgspec.UNSET
    )
    return Tokens(
        access_token=access_token,
        expires_in=seconds,
        scope=" ".join(scopes),
        refresh_token=refresh_token,
        id_token=id_token,
    )


async def machine_token_mint(tx: Tx, desk: Desk, account: Actor) -> Tokens:
    """For a service account; the token names the key it was got for and lives no longer than it."""
    signer = await desk.keys.signer(tx, Purpose.ISSUER)
    now = clock.epoch_s()
    seconds = max(min(desk.access_token_seconds, account.expires_at - now), 1)
    token = signer.token(
        claims.machine_access(
            str(account.id),
            account.name,
            issuer=desk.issuer.url,
            key_id=account.credential_id,
            jti=new_id().hex,
            now=now,
            seconds=seconds,
        ),
        typ=ACCESS_TOKEN_TYPE,
    )
    return Tokens(access_token=token, expires_in=seconds)


async def family_end(tx: Tx, family_id: UUID, reason: str) -> None:
    """No refresh token of it works any more, and its live access tokens are denied."""
    await store.end_family(tx, family_id, reason)
    for jti, expires_at in await store.revoke_live_tokens(tx, family_id):
        await credentials.credential_deny(tx, jti, reason=reason, expires_at=expires_at)


async def families_end(tx: Tx, account_id: UUID, reason: str, *, except_id: UUID | None = None) -> None:
    for family_id in await store.families_of_account(tx, account_id, except_id=except_id):
        await family_end(tx, family_id, reason)


async def families_end_with_session(tx: Tx, session_id: UUID, reason: str) -> None:
    for family_id in await store.families_of_session(tx, session_id):
        await family_end(tx, family_id, reason)


async def family_of_token(tx: Tx, jti: str) -> Family | None:
    """The live family a live access token follows from."""
    return await store.live_family_of(tx, jti)


async def token_revoke(tx: Tx, desk: Desk, client_id: str, token: str) -> bool:
    """RFC 7009. A refresh token takes its family along; an access token goes alone. False: there is no such token."""
    if len(token) > MAX_TOKEN:
        return False
    found = await store.find_refresh(tx, token_hash(token), GRACE_SECONDS)
    if found is not None:
        _require_own(found.client_id, client_id)
        await family_end(tx, found.family_id, "revoked by the client")
        return True
    said = await desk.keys.read_token(tx, Purpose.ISSUER, token, typ=ACCESS_TOKEN_TYPE)
    if said is None or said.get("iss") != desk.issuer.url:
        return False
    _require_own(str(said["client_id"]), client_id)
    await store.revoke_token(tx, said["jti"])
    expires_at = datetime.fromtimestamp(said["exp"], UTC)
    await credentials.credential_deny(tx, said["jti"], reason="revoked by the client", expires_at=expires_at)
    return True


def _require_own(owner: str, client_id: str) -> None:
    if owner != client_id:
        raise OAuthRefusal(Error.UNAUTHORIZED_CLIENT, "the token was given to another client")


async def grants_prune(tx: Tx, *, refresh_token_days: int) -> int:
    return await store.prune(tx, spent_days=refresh_token_days)
