"""One HTTP request as the pipeline reads it: bounded, strict, and honest about where it came from."""

import asyncio
import itertools
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.patterns import WORDS
from gpuaas.kit.errors import Detail, Invalid, Refused, TooLarge, Unauthenticated, WrongType

BODY_SECONDS = 10.0
MAX_FIELDS = 50
MAX_CREDENTIAL = 8192
_SLASH = re.compile(rb"%2f|%5c", re.IGNORECASE)
_ONCE = frozenset(
    {
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"host",
        b"idempotency-key",
        b"transfer-encoding",
        b"x-correlation-id",
    }
)
_CORRELATION = re.compile(rb"^[A-Za-z0-9_.:-]{8,64}$")
# The escape itself, not a backslash that is itself escaped before "u0000".
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_AT = re.compile(r" - at `(?:key` in `)?\$?\.?(.*?)`$")
_PATTERN = re.compile(r"`str` matching regex ((['\"]).*\2)")
_LENGTH = re.compile(r"`str` of length (>=|<=) (\d+)")
_WORDS = {repr(pattern): words for pattern, words in WORDS.items()}
_MISSING = re.compile(r"^Object (?:missing required|contains unknown) field `(.*?)`")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
ProxyNetworks = tuple[Any, ...]


class Request:
    __slots__ = (
        "_receive",
        "ambiguity",
        "client_ip",
        "correlation_id",
        "headers",
        "method",
        "path",
        "peer_certificate",
        "query_string",
    )

    def __init__(self, scope: Message, receive: Receive, proxies: ProxyNetworks) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query_string: bytes = scope["query_string"]
        given_headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.headers: dict[bytes, bytes] = dict(given_headers)
        raw_path: bytes = scope.get("raw_path") or b""
        self.ambiguity = ""
        """What a proxy before us may have read otherwise than we do; '' when there is nothing."""
        if b"%" in raw_path or len(given_headers) != len(self.headers):
            self.ambiguity = _ambiguity(raw_path, given_headers)
        self.peer_certificate: bytes | None = scope.get("peer_certificate")
        self._receive = receive
        client = scope.get("client")
        peer: str = client[0] if client else ""
        self.client_ip = _client_ip(peer, self.headers, proxies) if proxies else peer
        given = self.headers.get(b"x-correlation-id")
        self.correlation_id = given.decode() if given and _CORRELATION.match(given) else new_correlation_id()

    def plain_bearer(self) -> str | None:
        """The credential as nearly everybody sends it; None: see what `bearer` says."""
        given = self.headers.get(b"authorization")
        return given[7:].decode("latin-1") if given and given[:7] == b"Bearer " else None

    def bearer(self) -> str:
        given = self.headers.get(b"authorization")
        if not given:
            raise Unauthenticated(Code.CREDENTIAL_MISSING, "Send an access token or a service-account key as Bearer.")
        if given[:7].lower() != b"bearer " or not 7 < len(given) <= 7 + MAX_CREDENTIAL or not given.isascii():
            raise Unauthenticated(Code.CREDENTIAL_INVALID, "The Authorization header is not 'Bearer' and a credential.")
        return given[7:].decode().strip()

    async def body(self, limit: int) -> bytes:
        """The whole body, or a fault: never more than `limit` bytes in memory, never longer than ten seconds."""
        if b"content-encoding" in self.headers and self.headers[b"content-encoding"] != b"identity":
            raise WrongType(Code.CONTENT_ENCODING_UNSUPPORTED, "Send the body without a content encoding.")
        length = self.headers.get(b"content-length")
        if length is not None and (not length.isdigit() or int(length[:20]) > limit):
            raise _too_large(limit)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await self._collect(limit)
        except TimeoutError as error:
            raise Invalid(Code.BODY_TIMEOUT, "The body did not arrive in time. Send it again.") from error

    async def _collect(self, limit: int) -> bytes:
        message = await self._receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            whole: bytes = message.get("body", b"")
            if len(whole) > limit:
                raise _too_large(limit)
            return whole
        chunks, size = [], 0
        while True:
            if message["type"] == "http.disconnect":
                raise Invalid(Code.REQUEST_MALFORMED, "The connection closed before the body was complete.")
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > limit:
                raise _too_large(limit)
            if not message.get("more_body"):
                return b"".join(chunks)
            message = await self._receive()

    def require_content_type(self, wanted: bytes) -> None:
        kind = self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != wanted:
            raise WrongType(Code.CONTENT_TYPE_UNSUPPORTED, f"Send the body as {wanted.decode()}.")

    def query(self) -> dict[str, str]:
        return pairs(self.query_string, "query") if self.query_string else {}


def _ambiguity(raw_path: bytes, given: list[tuple[bytes, bytes]]) -> str:
    if _SLASH.search(raw_path):
        return "the path has an encoded slash"
    names = [name for name, _ in given]
    twice = next((name for name in names if name in _ONCE and names.count(name) > 1), None)
    return "" if twice is None else f"the header {twice.decode()} is given twice"


_PROCESS = os.urandom(8).hex()
_COUNT = itertools.count(1_000_000_000)


def new_correlation_id() -> str:
    """Unique, not secret: what this process is, and a count."""
    return f"{_PROCESS}{next(_COUNT)}"


def pairs(raw: bytes, where: str) -> dict[str, str]:
    """Name and value pairs as in a query or a form. A name twice is refused: which one would count?"""
    if not raw:
        return {}
    try:
        found = parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError as error:
        raise Invalid(Code.REQUEST_MALFORMED, f"The {where} could not be read.") from error
    named = dict(found)
    if len(named) != len(found):
        twice = next(name for name in named if sum(1 for other, _ in found if other == name) > 1)
        raise invalid(f"The {where} has a field twice.", twice, "given more than once")
    for name, value in found:
        if "\0" in name or "\0" in value:
            raise invalid(f"The {where} has a NUL character.", name.replace("\0", ""), "contains NUL")
    return named


def invalid(message: str, field: str, reason: str) -> Refused:
    return Refused(Code.REQUEST_INVALID, message, details=[Detail(field[:100], reason[:300])])


def in_words(error: msgspec.ValidationError) -> str:
    """msgspec's sentence, with what a pattern or a length asks for in place of it."""
    text = _PATTERN.sub(lambda found: _WORDS.get(found[1], "text of another form"), str(error))
    return _LENGTH.sub(lambda found: f"at {'least' if found[1] == '>=' else 'most'} {found[2]} characters", text)


def validation_fault(error: msgspec.ValidationError) -> Refused:
    """Which field is wrong and why, from msgspec's sentence."""
    text = in_words(error)
    missing, at = _MISSING.search(text), _AT.search(text)
    field = ".".join(part for part in ((at[1] if at else ""), (missing[1] if missing else "")) if part)
    reason = _AT.sub("", text)
    return invalid(f"{reason}." if not field else f"{field}: {reason}.", field, reason)


def decode_json(decoder: Any, body: bytes) -> Any:
    """Strictly: known fields, right types, each key once, no NUL."""
    try:
        value = decoder.decode(body)
    except msgspec.ValidationError as error:
        raise validation_fault(error) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(Code.REQUEST_MALFORMED, "The body is not JSON we can read.", log=str(error)) from error
    if _NUL.search(body):
        raise Refused(Code.REQUEST_INVALID, "Text in the body contains a NUL character.")
    try:
        json.loads(body, object_pairs_hook=_each_key_once)
    except _KeyTwice as error:
        raise invalid("The body has a key twice.", str(error), "given more than once") from error
    except (ValueError, RecursionError) as error:
        raise Invalid(Code.REQUEST_MALFORMED, "The body is not JSON we can read.", log=str(error)) from error
    return value


class _KeyTwice(Exception):
    pass


def _each_key_once(found: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in found}) != len(found):
        names = [name for name, _ in found]
        raise _KeyTwice(next(name for name in names if names.count(name) > 1))


def _too_large(limit: int) -> TooLarge:
    return TooLarge(Code.BODY_TOO_LARGE, f"The body is larger than the {limit} bytes this operation takes.")


def proxy_networks(text: str) -> ProxyNetworks:
    """The proxies whose word on the client's address we take: comma-separated networks."""
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def _client_ip(peer: str, headers: dict[bytes, bytes], proxies: Iterable[Any]) -> str:
    """The last address in X-Forwarded-For that is not one of our proxies. What stands before it may have been made up,
    and is not even read: nonsense there must not hide who sent it."""
    client = _address(peer)
    for hop in reversed(headers.get(b"x-forwarded-for", b"").split(b",")):
        if client is None or not any(client in network for network in proxies):
            break
        said = _address(hop.strip().decode("latin-1"))
        if said is None:
            break
        client = said
    return peer if client is None else str(client)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
