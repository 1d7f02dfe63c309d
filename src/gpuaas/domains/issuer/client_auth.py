"""Who asks for a token: our public clients by name, service accounts with their key (RFC 6749, 2.3)."""

import base64
import binascii
from collections.abc import Mapping
from urllib.parse import unquote_plus
from uuid import UUID

import msgspec

from gpuaas.domains.issuer.clients import Client
from gpuaas.domains.issuer.oauth import Error, OAuthRefusal
from gpuaas.domains.issuer.provider import Issuer

MAX_ID = 100
MAX_SECRET = 300


class Credentials(msgspec.Struct, frozen=True):
    client_id: str
    secret: str | None

    @property
    def service_account_id(self) -> UUID | None:
        """Service accounts are named by their id; our own clients never look like one."""
        try:
            return UUID(self.client_id)
        except ValueError:
            return None


def read(headers: Mapping[bytes, bytes], form: Mapping[str, str]) -> Credentials:
    """From the Authorization header or from the form, never from both."""
    header = headers.get(b"authorization")
    if header is not None:
        if "client_secret" in form:
            raise OAuthRefusal(Error.INVALID_REQUEST, "authenticate the client in one way only")
        found = _basic(header)
        if form.get("client_id", found.client_id) != found.client_id:
            raise OAuthRefusal(Error.INVALID_REQUEST, "client_id differs from the Authorization header")
        return found
    client_id = form.get("client_id", "")
    if not client_id or len(client_id) > MAX_ID:
        raise OAuthRefusal(Error.INVALID_CLIENT, "client_id is missing")
    return Credentials(client_id, form.get("client_secret") or None)


def _basic(header: bytes) -> Credentials:
    scheme, _, encoded = header.partition(b" ")
    try:
        if scheme.lower() != b"basic":
            raise ValueError
        client_id, colon, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
        if not colon or not client_id or len(client_id) > MAX_ID or len(secret) > MAX_SECRET:
            raise ValueError
    except (ValueError, binascii.Error) as error:
        raise OAuthRefusal(Error.INVALID_CLIENT, "the Authorization header is not HTTP Basic") from error
    return Credentials(unquote_plus(client_id), unquote_plus(secret) or None)


def public_client(issuer: Issuer, credentials: Credentials) -> Client:
    """One of our own programs. It has no secret, so one that sends a secret is not it."""
    client = issuer.clients.get(credentials.client_id)
    if client is None:
        raise OAuthRefusal(Error.INVALID_CLIENT, "the client is not known")
    if credentials.secret is not None:
        raise OAuthRefusal(Error.INVALID_CLIENT, "this client is public and has no secret")
    return client


def bearer(headers: Mapping[bytes, bytes], form: Mapping[str, str]) -> str:
    """An access token, from the header or (RFC 6750, 2.2) from the form."""
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer" and token.isascii():
        return token.decode().strip()
    if not form.get("access_token"):
        raise OAuthRefusal(Error.INVALID_TOKEN, "send the access token as Bearer")
    return form["access_token"]
