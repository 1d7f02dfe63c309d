"""Sends calls. Always holds: a change has one Idempotency-Key, the same on every try, so that trying again is safe; the
number of tries and the time they take are bounded; what the API refuses becomes an `ApiError`."""

import random
import time
from collections.abc import Iterator
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar
from urllib.parse import urlsplit

import msgspec

from gpuaas import __version__
from gpuaas.client.call import PREFIX, Call
from gpuaas.client.errors import ApiError, ClientError, Unreachable
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import ErrorResponse, Page
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
TRIES = 4
TIMEOUT_SECONDS = 30.0
CONNECT_SECONDS = 5.0
PATIENCE_SECONDS = 20.0
"""No try begins later than this after the first."""
MAX_ANSWER = 32 * 1024 * 1024
MAX_PAGES = 10_000
_AGAIN = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})
_RENEWABLE = frozenset({Code.CREDENTIAL_EXPIRED, Code.CREDENTIAL_INVALID})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Credentials(Protocol):
    def token(self) -> str | None:
        """What is sent as Bearer now; None: nothing is."""

    def renew(self, refused: str) -> str | None:
        """Another credential in place of one the API called expired; None: there is no other."""


class Fixed:
    """One credential that does not change: a service-account key, or none."""

    def __init__(self, token: str | None = None) -> None:
        self._token = token

    def token(self) -> str | None:
        return self._token

    def renew(self, refused: str) -> str | None:
        return None


def check_plain_http(url: str, *, allowed: bool) -> None:
    """A credential does not travel in the clear to another machine unless it was said that it may."""
    parts = urlsplit(url)
    if parts.scheme == "http" and not allowed and parts.hostname not in LOOPBACK:
        raise ClientError(
            f"{url} is plain http to another machine: anyone between could read the credential. "
            "Use https, or say --plain-http if that is meant."
        )


class Api:
    def __init__(
        self,
        url: str,
        credentials: Credentials | None = None,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        tries: int = TRIES,
    ) -> None:
        self.url = url.rstrip("/")
        self._credentials: Credentials = credentials or Fixed()
        self._timeout_seconds = timeout_seconds
        self._tries = tries
        self._opened: httpx.Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def send(self, call: Call[T]) -> T:
        return decode(call, self.send_raw(call))

    def send_raw(self, call: Call[Any]) -> bytes:
        """The answer's bytes, exactly as they came."""
        return self._tried(call).content

    def pages(self, call: Call[Page[T]]) -> Iterator[Page[T]]:
        for body in self.pages_raw(call):
            yield decode(call, body)

    def pages_raw(self, call: Call[Page[T]]) -> Iterator[bytes]:
        for _ in range(MAX_PAGES):
            body = self.send_raw(call)
            yield body
            cursor = msgspec.json.decode(body, type=_Cursor).next_cursor
            if cursor is None:
                return
            call = following(call, cursor)

    def items(self, call: Call[Page[T]]) -> Iterator[T]:
        for page in self.pages(call):
            yield from page.items

    def stream(self, call: Call[bytes]) -> Iterator[bytes]:
        """An answer that may be large, as it comes. It is not tried again once a part of it was given out."""
        import httpx

        correlation = new_id().hex
        try:
            with self._http().stream(
                call.method, PREFIX + call.path, params=call.parameters(), headers=self._headers(call, correlation, "")
            ) as answer:
                if answer.status_code >= HTTPStatus.BAD_REQUEST:
                    answer.read()
                    raise api_error(answer, correlation)
                yield from answer.iter_bytes()
        except httpx.TransportError as error:
            raise Unreachable(self.url, describe(error), correlation) from error

    def page(self, path: str) -> tuple[int, bytes]:
        """Something beside the API's operations (health, the contract): its status and content."""
        import httpx

        try:
            answer = self._http().get(path)
        except httpx.TransportError as error:
            raise Unreachable(self.url, describe(error)) from error
        return answer.status_code, answer.content

    def version(self) -> str:
        """The version of the API, as its contract says."""
        status, body = self.page("/api/openapi.json")
        if status != HTTPStatus.OK:
            raise ApiError(status, "not_from_the_api", f"{self.url} has no contract at /api/openapi.json.")
        try:
            return msgspec.json.decode(body, type=_Contract).info.version
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ClientError(f"The contract at {self.url}/api/openapi.json cannot be read.") from error

    def _http(self) -> "httpx.Client":
        if self._opened is None:
            import httpx

            self._opened = httpx.Client(
                base_url=self.url,
                timeout=httpx.Timeout(self._timeout_seconds, connect=min(CONNECT_SECONDS, self._timeout_seconds)),
                headers={"user-agent": f"gpuaas-client/{__version__}"},
                follow_redirects=False,
            )
        return self._opened

    def _tried(self, call: Call[Any]) -> "httpx.Response":
        """Send until it is answered, for as long as trying again can help."""
        correlation, key = new_id().hex, str(new_id())
        started, renewed = clock.monotonic(), False
        for attempt in range(1, self._tries + 1):
            failure, wait, token = self._try(call, correlation, key)
            if not isinstance(failure, ClientError):
                return failure
            if not renewed and token and isinstance(failure, ApiError) and failure.code in _RENEWABLE:
                renewed = True
                if self._credentials.renew(token) is not None:
                    continue
            wait = pause(attempt) if wait is None else wait
            spent = clock.monotonic() - started + max(wait, 0.0)
            if wait < 0 or attempt == self._tries or spent > PATIENCE_SECONDS:
                raise failure
            time.sleep(wait)
        raise AssertionError("unreachable")

    def _try(
        self, call: Call[Any], correlation: str, key: str
    ) -> tuple["httpx.Response | ClientError", float | None, str]:
        """One try: the answer or what went wrong, how long to wait before the next (negative: there is no use in one,
        None: as ever), and the credential it was sent with."""
        import httpx

        headers = self._headers(call, correlation, key)
        token = headers.get("authorization", "").removeprefix("Bearer ")
        try:
            answer = self._http().request(
                call.method, PREFIX + call.path, params=call.parameters(), content=call.content(), headers=headers
            )
        except httpx.TransportError as error:
            return Unreachable(self.url, describe(error), correlation), None, token
        if answer.status_code < HTTPStatus.BAD_REQUEST:
            if answer.is_redirect or len(answer.content) > MAX_ANSWER:
                return _not_ours(answer, correlation), -1.0, token
            return answer, None, token
        failure = api_error(answer, correlation)
        again = failure.status in _AGAIN or failure.code == Code.REQUEST_IN_PROGRESS
        if not again:
            return failure, -1.0, token
        return failure, None if failure.retry_after is None else float(failure.retry_after), token

    def _headers(self, call: Call[Any], correlation: str, key: str) -> dict[str, str]:
        headers = {"x-correlation-id": correlation}
        token = self._credentials.token()
        if token:
            headers["authorization"] = f"Bearer {token}"
        if call.body is not None:
            headers["content-type"] = "application/json"
        if call.changes and key:
            headers["idempotency-key"] = key
        return headers


class _Info(msgspec.Struct):
    version: str


class _Contract(msgspec.Struct):
    info: _Info


class _Cursor(msgspec.Struct):
    next_cursor: str | None = None


def following(call: Call[Page[T]], cursor: str) -> Call[Page[T]]:
    """The same list, from where a page ended."""
    if call.query is None or "cursor" not in call.query.__struct_fields__:
        raise TypeError(f"{call.operation} has no pages")
    return Call(
        operation=call.operation,
        method=call.method,
        path=call.path,
        answer=call.answer,
        query=msgspec.structs.replace(call.query, cursor=cursor),
    )


def decode(call: Call[T], body: bytes) -> T:
    try:
        return msgspec.json.decode(body, type=call.answer)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ClientError(
            f"The answer to {call.operation} is not what this version ({__version__}) reads: {error}. "
            "Is the client older than the server, or is this not a GPUaaS?"
        ) from error


def pause(attempt: int) -> float:
    """0.2, 0.4, 0.8 … seconds, each half random, so that many clients do not come back together."""
    longest: float = 0.2 * 2 ** (attempt - 1)
    return longest * (0.5 + random.random() / 2)  # noqa: S311 # spreads load, guards nothing


def api_error(answer: "httpx.Response", correlation: str) -> ApiError:
    """What the API said; also when something in between answered in its place."""
    after = answer.headers.get("retry-after", "")
    retry_after = int(after) if after.isdigit() and len(after) < 6 else None
    try:
        said = msgspec.json.decode(answer.content, type=ErrorResponse).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ApiError(
            answer.status_code,
            "not_from_the_api",
            f"{answer.url.scheme}://{answer.url.netloc.decode()} answered {answer.status_code} "
            f"{answer.reason_phrase}, not in the way a GPUaaS API does.",
            correlation_id=answer.headers.get("x-correlation-id", correlation),
            retry_after=retry_after,
        )
    return ApiError(
        answer.status_code,
        said.code,
        said.message,
        details=said.details,
        correlation_id=said.correlation_id or correlation,
        retry_after=retry_after,
    )


def _not_ours(answer: "httpx.Response", correlation: str) -> ApiError:
    return ApiError(
        answer.status_code,
        "not_from_the_api",
        f"{answer.url.scheme}://{answer.url.netloc.decode()} answered in a way a GPUaaS API does not. Check the URL.",
        correlation_id=correlation,
    )


def describe(error: Exception) -> str:
    """The cause of a transport error in few words."""
    import httpx

    if isinstance(error, httpx.ConnectTimeout):
        return "the connection was not accepted in time"
    if isinstance(error, httpx.TimeoutException):
        return "the answer did not come in time"
    text = str(error)
    for sign, words in (
        ("CERTIFICATE_VERIFY_FAILED", f"its certificate is not trusted ({text})"),
        ("Name or service not known", "there is no host of this name"),
        ("Temporary failure in name resolution", "the name could not be looked up"),
        ("Connection refused", "nothing listens there"),
    ):
        if sign in text:
            return words
    return text or type(error).__name__
