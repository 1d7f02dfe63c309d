"""HTTP towards an identity provider, with a limit on everything.

Always holds: TLS unless the provider is on this machine; no redirect is followed; an answer has a maximum size and must
arrive in time; what goes wrong is Unavailable (ask again later) or IssuerRefused (it said no)."""

import asyncio
import ssl
from contextvars import ContextVar
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.kit import log
from gpuaas.kit.errors import Unavailable

MAX_ANSWER_BYTES = 512 * 1024
TOTAL_SECONDS = 8.0
TIMEOUT = httpx.Timeout(5.0, connect=3.0)
JSON = {"accept": "application/json"}
# Stands for the built-in issuer of this very process; `.invalid` is nobody's (RFC 2606).
OWN_ORIGIN = "http://own-issuer.invalid"
asked_by: ContextVar[str] = ContextVar("asked_by", default="")


class IssuerRefused(Exception):
    """The issuer answered, and the answer is no. `error` is its word for why (RFC 6749)."""

    def __init__(self, error: str, status: int) -> None:
        super().__init__(f"{status} {error}")
        self.error = error
        self.status = status


def is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def check_address(url: str) -> str:
    """The address, if tokens and codes may be sent there."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"not an address: {url[:200]!r}") from error
    secure = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    if not secure or not host or parts.username is not None or parts.fragment:
        raise ValueError(f"not an https address (http is for this machine only): {url[:200]!r}")
    return url


class OwnIssuer(httpx.AsyncBaseTransport):
    """The application itself, asked in this process for whoever asked us: rates count his address, not ours. It is
    told its application once there is one."""

    def __init__(self) -> None:
        self.app: Any = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["x-correlation-id"] = log.correlation_id.get()
        inside = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=(asked_by.get(), 0))
        # A task has a context of its own: what the inner request sets there stays its own.
        return await asyncio.create_task(inside.handle_async_request(request))


class BoundedHttp:
    def __init__(self, own: OwnIssuer | None = None) -> None:
        self._own = own
        self._client = httpx.AsyncClient(
            verify=ssl.create_default_context(),
            timeout=TIMEOUT,
            follow_redirects=False,
            trust_env=False,
            mounts={OWN_ORIGIN: own} if own is not None else None,
            limits=httpx.Limits(max_connections=20, max_keepalive_connections=5, keepalive_expiry=30),
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def get(self, url: str, *, bearer: str = "") -> dict[str, Any]:
        headers = JSON | {"authorization": f"Bearer {bearer}"} if bearer else JSON
        return await self._ask(self._client.build_request("GET", self._checked(url), headers=headers))

    async def post(self, url: str, form: dict[str, str], *, basic: tuple[str, str] | None = None) -> dict[str, Any]:
        request = self._client.build_request("POST", self._checked(url), data=form, headers=JSON)
        if basic is not None:
            request = next(httpx.BasicAuth(*basic).auth_flow(request))
        return await self._ask(request)

    def _checked(self, url: str) -> str:
        return url if self._own is not None and url.startswith(OWN_ORIGIN + "/") else check_address(url)

    async def _ask(self, request: httpx.Request) -> dict[str, Any]:
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                response = await self._client.send(request, stream=True)
                try:
                    body = await _read(response)
                finally:
                    await response.aclose()
        except (httpx.HTTPError, TimeoutError, OSError) as error:
            raise issuer_away(f"{type(error).__name__}: {error}") from error
        if response.status_code >= 500 or response.status_code == 429:
            raise issuer_away(f"status {response.status_code} from {request.url.host}")
        answer = _decode(body)
        if response.status_code >= 300:
            said = answer.get("error") if answer else None
            raise IssuerRefused(said if isinstance(said, str) else "unexpected answer", response.status_code)
        if answer is None and body.strip():
            raise issuer_away(f"{request.url.host} answered with something that is not a JSON object")
        return answer or {}


async def _read(response: httpx.Response) -> bytes:
    chunks, size = [], 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise issuer_away(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _decode(body: bytes) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def issuer_away(why: str) -> Unavailable:
    return Unavailable(
        Code.DEPENDENCY_UNAVAILABLE,
        "The identity provider is away, or does not answer as it should. Try again.",
        log=why,
        retry_after=3,
    )
