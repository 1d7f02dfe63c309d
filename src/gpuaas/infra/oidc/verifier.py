"""Verification of tokens, locally.

Always holds: only ES256, RS256, PS256 and EdDSA count; a token names one of the issuers we trust and our audience, is
in its time (half a minute of leeway), and is an access token, not an ID token shown in its place."""

import asyncio
import base64
import binascii
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import Key

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Email
from gpuaas.contracts.tokens import ACCESS_TOKEN_TYPE, BUILT_IN, KEY_CLAIM, KIND_CLAIM
from gpuaas.infra.oidc.keys import ALGORITHM_KINDS, FORCED_APART_SECONDS, PATIENCE_SECONDS, KeyCache
from gpuaas.kit import clock
from gpuaas.kit.errors import Unauthenticated
from gpuaas.kit.secrets import token_hash

MAX_TOKEN = 8192
LEEWAY_SECONDS = 30
MAX_LIFE_SECONDS = 366 * 86_400
_HEADER_TYPES = frozenset({"", "jwt", ACCESS_TOKEN_TYPE, f"application/{ACCESS_TOKEN_TYPE}"})
_NOT_ACCESS = frozenset({"id", "refresh", "offline", "logout"})  # what some issuers write into the claim `typ`

Line = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]*$(?!\n)")]


class TrustedIssuer(msgspec.Struct, frozen=True):
    """An issuer whose tokens we accept. `own`: the built-in one, which may also speak for service accounts."""

    url: str
    audience: str
    keys: KeyCache
    own: bool = False

    @property
    def realm(self) -> str:
        """Whose subjects its tokens speak of."""
        return BUILT_IN if self.own else self.url


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """What a verified access token says, cleaned."""

    issuer: str
    subject: str
    expires_at: int
    credential_id: str
    kind: str = ""
    key_id: str = ""
    email: str = ""
    email_verified: bool = False
    name: str = ""
    generation: int = 0


class _Header(msgspec.Struct):
    alg: str
    kid: Annotated[str, msgspec.Meta(max_length=255)] = ""
    typ: str = ""
    crit: Any = None


class _Payload(msgspec.Struct):
    iss: str
    sub: Line
    aud: str | list[str]
    exp: int | float
    nbf: int | float = 0
    iat: int | float = 0
    jti: str = ""
    typ: str = ""
    nonce: str = ""
    at_hash: str = ""
    email: Any = None
    email_verified: Any = None
    name: Any = None
    preferred_username: Any = None
    kind: Any = msgspec.field(default=None, name=KIND_CLAIM)
    key: Any = msgspec.field(default=None, name=KEY_CLAIM)


class TokenVerifier:
    def __init__(self, *issuers: TrustedIssuer) -> None:
        self._issuers = {issuer.url: issuer for issuer in issuers}
        self.marked_at: Any = None
        """The break-glass mark these keys were last read for."""
        self._obeyed_at = float("-inf")

    async def access_token(self, token: str) -> Claims:
        """What the token says; raises Unauthenticated unless all of it holds."""
        header, payload, issuer = await self._checked(token)
        if header.typ.lower() not in _HEADER_TYPES or (issuer.own and header.typ != ACCESS_TOKEN_TYPE):
            raise _refused(f"type {header.typ[:40]!r} is not an access token's")
        if payload.typ.lower() in _NOT_ACCESS or payload.at_hash:
            raise _refused("an ID or refresh token in place of an access token")
        _check_audience(payload, issuer.audience)
        return Claims(
            issuer=issuer.realm,
            subject=payload.sub,
            expires_at=int(payload.exp),
            generation=issuer.keys.generation,
            credential_id=payload.jti if 0 < len(payload.jti) <= 255 else "sha256:" + token_hash(token).hex(),
            kind=str(payload.kind or "") if issuer.own else "",
            key_id=str(payload.key or "") if issuer.own else "",
            email=clean_email(payload.email),
            email_verified=payload.email_verified in (True, "true"),
            name=clean_name(payload.name) or clean_name(payload.preferred_username),
        )

    async def id_token(self, token: str, *, client_id: str, nonce: str) -> Claims:
        """Who logged in, as the issuer tells our client; bound to the login by its nonce."""
        _, payload, issuer = await self._checked(token)
        _check_audience(payload, client_id)
        if payload.nonce != nonce:
            raise _refused("the nonce is not this login's")
        return Claims(
            issuer=issuer.realm,
            subject=payload.sub,
            expires_at=int(payload.exp),
            credential_id=payload.jti,
            email=clean_email(payload.email),
            email_verified=payload.email_verified in (True, "true"),
            name=clean_name(payload.name) or clean_name(payload.preferred_username),
        )

    async def still_holds(self, claims: Claims) -> bool:
        """Whether the keys these claims were verified under are still the issuer's, as far as we know by now."""
        keys = next(issuer.keys for issuer in self._issuers.values() if issuer.realm == claims.issuer)
        await keys.renew()
        return keys.generation == claims.generation

    async def refresh(self) -> dict[str, list[str]]:
        """Read all issuers' keys now: the key ids, per issuer that answered."""
        return {url: issuer.keys.key_ids() for url, issuer in self._issuers.items() if await issuer.keys.refresh()}

    async def obey(self, marked_at: Any) -> bool:
        """Read the keys if somebody asked all replicas to since we last did; says whether that was tried now. An issuer
        that does not answer is asked again after a moment, and its last good keys stay."""
        now = clock.monotonic()
        if marked_at is None or marked_at == self.marked_at or now - self._obeyed_at < FORCED_APART_SECONDS:
            return False
        self._obeyed_at = now
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                if len(await self.refresh()) == len(self._issuers):
                    self.marked_at = marked_at
        return True

    async def _checked(self, token: str) -> tuple[_Header, _Payload, TrustedIssuer]:
        head, body, signature, signed = _split(token)
        try:
            header = msgspec.json.decode(head, type=_Header)
            payload = msgspec.json.decode(body, type=_Payload)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _refused(str(error)) from error
        issuer = self._issuers.get(payload.iss)
        if issuer is None:
            raise _refused(f"issuer {payload.iss[:200]!r} is not trusted")
        if header.alg not in ALGORITHM_KINDS or header.crit is not None:
            raise _refused(f"algorithm {header.alg[:20]!r} or a critical header is not accepted")
        key = await issuer.keys.find(header.kid, header.alg)
        if key is None:
            raise _refused("signed with a key the issuer does not have")
        if not _signature_holds(header.alg, signed, signature, key):
            raise _refused("the signature does not hold")
        _check_time(payload)
        return header, payload, issuer


def clean_email(value: Any) -> str:
    try:
        return msgspec.convert(value, Email)
    except msgspec.ValidationError:
        return ""


def clean_name(value: Any) -> str:
    """A name on one line, without what could act on a terminal."""
    if not isinstance(value, str):
        return ""
    return " ".join("".join(ch if ch.isprintable() else " " for ch in value[:500]).split())[:120].rstrip()


def _split(token: str) -> tuple[bytes, bytes, bytes, bytes]:
    parts = token.split(".")
    if len(token) > MAX_TOKEN or len(parts) != 3:
        raise _refused("not a signed token")
    head, body, signature = (_decode(part) for part in parts)
    return head, body, signature, token.rpartition(".")[0].encode()


def _decode(part: str) -> bytes:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise _refused("a part is not base64url") from error


def _signature_holds(algorithm: str, signed: bytes, signature: bytes, key: Key) -> bool:
    try:
        return jws.JWSRegistry.algorithms[algorithm].verify(signed, signature, key)
    except (JoseError, ValueError) as error:
        raise _refused(f"the signature cannot be checked: {error}") from error


def _check_audience(payload: _Payload, wanted: str) -> None:
    if wanted not in ([payload.aud] if isinstance(payload.aud, str) else payload.aud):
        raise _refused("it is for another audience")


def _check_time(payload: _Payload) -> None:
    now = clock.epoch_s()
    if payload.exp <= now - LEEWAY_SECONDS:
        raise Unauthenticated(Code.CREDENTIAL_EXPIRED, "The credential has expired. Refresh it or log in again.")
    if payload.exp > now + MAX_LIFE_SECONDS:
        raise _refused("it lives longer than a year")
    if payload.nbf > now + LEEWAY_SECONDS or payload.iat > now + LEEWAY_SECONDS:
        raise _refused("it is not valid yet")


def _refused(why: str) -> Unauthenticated:
    return Unauthenticated(Code.CREDENTIAL_INVALID, "The credential is not one we know. Log in again.", log=why)
