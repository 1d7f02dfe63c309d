"""What the tokens say: access tokens by RFC 9068, ID tokens by OpenID Connect Core."""

import base64
import hashlib
from datetime import datetime
from typing import Any

import msgspec

from gpuaas.contracts.tokens import KEY_CLAIM, KIND_CLAIM, SERVICE_ACCOUNT_KIND
from gpuaas.domains.issuer.provider import AUDIENCE

ID_TYP = "JWT"


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """The claims about somebody, before scopes cut them."""

    subject: str
    email: str
    email_verified: bool
    name: str


def about(person: Person, scopes: list[str]) -> dict[str, Any]:
    """What these scopes let a client know."""
    said: dict[str, Any] = {"sub": person.subject}
    if "email" in scopes:
        said |= {"email": person.email, "email_verified": person.email_verified}
    if "profile" in scopes:
        said["name"] = person.name
    return said


def access(
    person: Person, *, issuer: str, client_id: str, scopes: list[str], sid: str, jti: str, now: int, seconds: int
) -> dict[str, Any]:
    """Our API always learns who it is, whatever the client may know: the token is for the API."""
    return {
        "iss": issuer,
        "sub": person.subject,
        "aud": AUDIENCE,
        "exp": now + seconds,
        "iat": now,
        "jti": jti,
        "client_id": client_id,
        "scope": " ".join(scopes),
        "sid": sid,
        "email": person.email,
        "email_verified": person.email_verified,
        "name": person.name,
    }


def machine_access(
    account_id: str, name: str, *, issuer: str, key_id: str, jti: str, now: int, seconds: int
) -> dict[str, Any]:
    """For a service account: subject and client are the same (RFC 9068, 2.2)."""
    return {
        "iss": issuer,
        "sub": account_id,
        "aud": AUDIENCE,
        "exp": now + seconds,
        "iat": now,
        "jti": jti,
        "client_id": account_id,
        "name": name,
        KIND_CLAIM: SERVICE_ACCOUNT_KIND,
        KEY_CLAIM: key_id,
    }


def identity(
    person: Person,
    *,
    issuer: str,
    client_id: str,
    scopes: list[str],
    sid: str,
    nonce: str | None,
    auth_time: datetime,
    access_token: str,
    now: int,
    seconds: int,
) -> dict[str, Any]:
    said = {
        **about(person, scopes),
        "iss": issuer,
        "aud": client_id,
        "exp": now + seconds,
        "iat": now,
        "auth_time": int(auth_time.timestamp()),
        "sid": sid,
        "at_hash": at_hash(access_token),
    }
    return said if nonce is None else {**said, "nonce": nonce}


def at_hash(access_token: str) -> str:
    half = hashlib.sha256(access_token.encode("ascii")).digest()[:16]
    return base64.urlsafe_b64encode(half).rstrip(b"=").decode()
