"""One HTTP/1.1 connection over mutual TLS, and the few of them an agent keeps to its one host.

Always holds: a connection carries one request at a time; a broken one is never used again; after `renew` no request
starts on a connection made with the older certificate, while one in flight may end on it."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11

from gpuaas import __version__
from gpuaas.client.errors import Unreachable
from gpuaas.kit import clock

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 40.0
"""A connection beyond the first is closed after so long without use."""
MOST_CONNECTIONS = 3
MAX_ANSWER = 8 * 1024 * 1024
_READ = 64 * 1024


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    content: bytes


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, generation: int) -> None:
        self.generation = generation
        self.used_at = clock.monotonic()
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_READ)

    @property
    def reusable(self) -> bool:
        return (
            self._http.our_state is h11.IDLE
            and not self._reader.at_eof()
            and self._reader.exception() is None
            and not self._writer.is_closing()
        )

    def close(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.transport.abort()

    async def send(self, method: str, target: str, host: str, body: bytes | None) -> tuple[int, dict[str, str]]:
        headers = [("host", host), ("user-agent", f"gpuaas-agent/{__version__}"), ("accept", "application/json")]
        if body is not None:
            headers += [("content-type", "application/json"), ("content-length", str(len(body)))]
        data = self._http.send(h11.Request(method=method, target=target, headers=headers)) or b""
        if body:
            data += self._http.send(h11.Data(data=body)) or b""
        data += self._http.send(h11.EndOfMessage()) or b""
        self._writer.write(data)
        await self._writer.drain()
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return event.status_code, {name.decode(): value.decode("latin-1") for name, value in event.headers}
            if not isinstance(event, h11.InformationalResponse):
                raise h11.RemoteProtocolError("the connection was closed before the answer")

    async def body(self) -> AsyncIterator[bytes]:
        while True:
            event = await self._event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                raise h11.RemoteProtocolError("the connection was closed within the answer")
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        self.used_at = clock.monotonic()

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]  # NEED_DATA is what mypy cannot see was excluded
            self._http.receive_data(await self._reader.read(_READ))


class Pool:
    """Connections to one host; at most MOST_CONNECTIONS, opened when needed, the spare ones closed when idle."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname:
            raise ValueError(f"the agents' listener must be an https URL, not {url!r}")
        self.url = url.rstrip("/")
        self._prefix = parts.path.rstrip("/")
        self._name, self._port = parts.hostname, parts.port or 443
        self._host = parts.netloc
        self._tls = tls
        self._generation = 0
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._free = asyncio.Semaphore(MOST_CONNECTIONS)
        self.cut = False
        """Cut on purpose, by a simulated fault: nothing goes out."""

    def renew(self, tls: ssl.SSLContext) -> None:
        """From now on connections are made with this certificate and this trust."""
        self._tls = tls
        self._generation += 1
        self._drop_stale()

    def close(self) -> None:
        for connection in (*self._idle, *self._busy):
            connection.close()
        self._idle.clear()

    def set_cut(self, cut: bool) -> None:
        self.cut = cut
        if cut:
            self.close()

    async def ask(self, method: str, path: str, body: bytes | None, seconds: float) -> Answer:
        """One request and its whole answer, within so many seconds; Unreachable if none came."""
        async with self._connection() as connection:
            with self._translated():
                async with asyncio.timeout(seconds):
                    status, headers = await connection.send(method, self._prefix + path, self._host, body)
                    parts, size = [], 0
                    async for part in connection.body():
                        size += len(part)
                        if size > MAX_ANSWER:
                            raise h11.RemoteProtocolError(f"the answer is longer than {MAX_ANSWER} bytes")
                        parts.append(part)
                return Answer(status, headers, b"".join(parts))

    @contextlib.asynccontextmanager
    async def stream(self, path: str, seconds: float) -> AsyncIterator[tuple[Answer, AsyncIterator[bytes]]]:
        """A GET whose answer may be large; each part must come within `seconds`."""
        async with self._connection() as connection:
            with self._translated():
                async with asyncio.timeout(seconds):
                    status, headers = await connection.send("GET", self._prefix + path, self._host, None)
                yield Answer(status, headers, b""), self._parts(connection, seconds)

    async def _parts(self, connection: Connection, seconds: float) -> AsyncIterator[bytes]:
        parts = connection.body()
        while True:
            async with asyncio.timeout(seconds):
                part = await anext(parts, None)
            if part is None:
                return
            yield part

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        async with self._free:
            connection = await self._take()
            self._busy.add(connection)
            try:
                yield connection
            finally:
                self._busy.discard(connection)
                if connection.reusable and connection.generation == self._generation and not self.cut:
                    self._idle.append(connection)
                else:
                    connection.close()
                self._drop_stale()

    async def _take(self) -> Connection:
        if self.cut:
            raise Unreachable(self.url, "the network is cut")
        self._drop_stale()
        if self._idle:
            return self._idle.pop()
        generation = self._generation
        with self._translated():
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(
                    self._name, self._port, ssl=self._tls, server_hostname=self._name
                )
        return Connection(reader, writer, generation)

    def _drop_stale(self) -> None:
        """Of the idle ones: those that cannot be used, and all but the newest that nobody used for a while."""
        now, kept = clock.monotonic(), []
        for place, connection in enumerate(reversed(self._idle)):
            spare = place > 0 or bool(self._busy)
            old = spare and now - connection.used_at > IDLE_SECONDS
            if connection.reusable and connection.generation == self._generation and not old:
                kept.append(connection)
            else:
                connection.close()
        self._idle = kept[::-1]

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise Unreachable(self.url, "the answer did not come in time") from None
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(self.url, f"its certificate is not trusted ({error.verify_message})") from error
        except (OSError, h11.ProtocolError, EOFError) as error:
            raise Unreachable(self.url, str(error) or type(error).__name__) from error
