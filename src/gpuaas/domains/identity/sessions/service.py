"""The verbs of logins and sessions. What needs the issuer runs before the transaction (`…_prepare`).

Always holds: a login is finished once; a refresh token is sent to the issuer by one request at a time; a session that
was ended is refused within a second on every replica, also when the issuer cannot be reached."""

from datetime import UTC, datetime, timedelta

import msgspec

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.sessions import CredentialRevoke
from gpuaas.domains.identity.authority.service import CredentialAuthority
from gpuaas.domains.identity.sessions import store
from gpuaas.domains.identity.sessions.models import LoginState, Revocation
from gpuaas.domains.identity.sessions.redirects import redirect_allowed
from gpuaas.infra.oidc.bounded_http import IssuerRefused, asked_by
from gpuaas.infra.oidc.client import OidcClient, Tokens
from gpuaas.infra.oidc.verifier import LEEWAY_SECONDS, TokenVerifier
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import clock, log
from gpuaas.kit.errors import Conflict, Detail, Fault, Limited, Refused, Unauthenticated, Unavailable
from gpuaas.kit.parts import Parts
from gpuaas.kit.secrets import MasterKey, new_token, token_hash

LOGIN_MINUTES = 10
BREAK_GLASS_APART_SECONDS = 5.0
MAX_REVOCATION = timedelta(days=3660)
UNKNOWN_LIFE = timedelta(days=366)
_PURPOSE = "login"


class Started(msgspec.Struct, frozen=True, kw_only=True):
    authorization_url: str
    state: str
    expires_at: datetime
    login: LoginState


class Session(msgspec.Struct, frozen=True, kw_only=True):
    tokens: Tokens
    actor: Actor

    @property
    def expires_in_seconds(self) -> int:
        return max(self.actor.expires_at - clock.epoch_s(), 0)


async def login_prepare(parts: Parts, redirect_uri: str) -> Started:
    client = parts.get(OidcClient)
    if not redirect_allowed(redirect_uri, client.public_url):
        raise Refused(
            Code.REDIRECT_REFUSED,
            "The redirect address is not below this product's address, nor on this machine.",
            details=[Detail("redirect_uri", "not allowed")],
        )
    state, nonce, verifier = new_token(), new_token(), new_token()
    url = await client.authorization_url(redirect_uri=redirect_uri, state=state, nonce=nonce, code_verifier=verifier)
    sealed = parts.get(MasterKey).seal(verifier.encode(), _PURPOSE)
    return Started(
        authorization_url=url,
        state=state,
        expires_at=clock.now() + timedelta(minutes=LOGIN_MINUTES),
        login=LoginState(code_verifier=sealed, nonce=nonce, redirect_uri=redirect_uri),
    )


async def login_start(tx: Tx, started: Started) -> None:
    await store.start(tx, token_hash(started.state), started.login, started.expires_at)


async def finish_prepare(db: Database, parts: Parts, *, code: str, state: str, client_ip: str) -> Session:
    """Exchange the code. The state is spent first, so that a code is never sent twice: issuers take that for theft."""
    asked_by.set(client_ip)
    login = await store.take(db, token_hash(state))
    if login is None:
        raise Refused(Code.LOGIN_STATE_UNKNOWN, "This login was not started here, or too long ago. Start it again.")
    client = parts.get(OidcClient)
    verifier = parts.get(MasterKey).unseal(login.code_verifier, _PURPOSE).decode()
    try:
        tokens = await client.exchange(code, redirect_uri=login.redirect_uri, code_verifier=verifier)
        said = await parts.get(TokenVerifier).id_token(tokens.id_token, client_id=client.client_id, nonce=login.nonce)
        return Session(tokens=tokens, actor=await parts.get(CredentialAuthority).welcome(tokens.access_token, said))
    except IssuerRefused as error:
        raise _login_failed(str(error)) from error
    except Unauthenticated as error:
        raise _login_failed(error.log or error.message) from error


async def refresh_prepare(db: Database, parts: Parts, *, refresh_token: str, client_ip: str) -> Session:
    asked_by.set(client_ip)
    claim = token_hash(refresh_token)
    if not await store.claim_refresh(db, claim):
        raise Conflict(
            Code.REQUEST_IN_PROGRESS, "This refresh token is being exchanged, or was a moment ago.", retry_after=1
        )
    try:
        tokens = await parts.get(OidcClient).refresh(refresh_token)
        actor = await parts.get(CredentialAuthority).actor(tokens.access_token, fresh=True)
    except (IssuerRefused, Unauthenticated) as error:
        reason = getattr(error, "log", "") or str(error)
        raise Unauthenticated(Code.REFRESH_REFUSED, "The session has ended. Log in again.", log=reason) from error
    except Unavailable:
        await store.release_refresh(db, claim)  # it may not have been spent: let the client try again
        raise
    if tokens.refresh_token in (None, refresh_token):
        await store.release_refresh(db, claim)  # this issuer lets one be used again
        tokens = msgspec.structs.replace(tokens, refresh_token=refresh_token)
    return Session(tokens=tokens, actor=actor)


async def end_prepare(parts: Parts, refresh_token: str | None, *, client_ip: str) -> bool:
    """Whether the refresh token was revoked at the issuer. The access token is refused by us, whatever that does."""
    if refresh_token is None:
        return False
    asked_by.set(client_ip)
    try:
        return await parts.get(OidcClient).revoke(refresh_token)
    except (IssuerRefused, Fault) as error:
        log.get_logger().warning("refresh token not revoked", reason=getattr(error, "log", "") or str(error))
        return False


async def session_end(tx: Tx, actor: Actor) -> None:
    ends = datetime.fromtimestamp(actor.expires_at + LEEWAY_SECONDS, UTC)
    await store.revoke(tx, actor.credential_id, reason="logout", expires_at=ends)


async def credential_revoke(tx: Tx, wanted: CredentialRevoke) -> Revocation:
    now = clock.now()
    expires_at = wanted.expires_at or now + UNKNOWN_LIFE
    if not now < expires_at <= now + MAX_REVOCATION:
        raise Refused(
            Code.REQUEST_INVALID,
            "expires_at must be in the future, and not more than ten years away.",
            details=[Detail("expires_at", "out of range")],
        )
    return await store.revoke(tx, wanted.credential_id, reason=wanted.reason, expires_at=expires_at)


async def credential_deny(tx: Tx, credential_id: str, *, reason: str, expires_at: datetime) -> None:
    """Refuse a credential until it would have ended by itself: for the issuer, which knows what it gave."""
    ends = expires_at + timedelta(seconds=LEEWAY_SECONDS)
    await store.revoke(tx, credential_id, reason=reason, expires_at=ends)


async def keys_changed(tx: Tx) -> None:
    """Our issuer gave up its keys: every replica reads them again within a second of its next request."""
    await store.mark_keys_now(tx)


async def keys_refresh(db: Database, verifier: TokenVerifier) -> dict[str, list[str]]:
    """Read the issuers' keys now, here; every other replica does within a second of its next request."""
    marked_at = await store.mark_keys(db, apart_seconds=BREAK_GLASS_APART_SECONDS)
    if marked_at is None:
        raise Limited(
            Code.RATE_LIMITED, "The keys were read again a moment ago.", retry_after=BREAK_GLASS_APART_SECONDS
        )
    answered = await verifier.refresh()
    verifier.marked_at = marked_at
    if not answered:
        raise Unavailable(
            Code.DEPENDENCY_UNAVAILABLE,
            "The identity provider cannot be reached; its last good keys stay.",
            retry_after=BREAK_GLASS_APART_SECONDS,
        )
    return answered


tidy = store.tidy


def _login_failed(why: str) -> Unauthenticated:
    log.get_logger().warning("login failed", reason=why)
    return Unauthenticated(
        Code.LOGIN_FAILED, "The identity provider did not accept the login. Start it again.", log=why
    )
