"""A proxy in front of PostgreSQL that knows one thing of the protocol: when a chosen transaction commits.

It lets the COMMIT through, sees PostgreSQL say that it is durable, and keeps that answer back; or it keeps the COMMIT
itself. Whoever sits on the other side can then be killed, cut off or left: committed or not, and nobody was told."""

import asyncio
import re
from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit

COMMIT = re.compile(rb"Q\x00\x00\x00.([ -~]*; )?COMMIT\x00", re.DOTALL)
COMMITTED = b"COMMIT\x00"


class CommitProxy:
    def __init__(self, database_url: str) -> None:
        parts = urlsplit(database_url)
        self._upstream = (parts.hostname or "", parts.port or 5432)
        self._parts = parts
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._marks: dict[tuple[bytes, ...], asyncio.Event] = {}
        self.before_commit = False
        """Keep the COMMIT back instead of the answer to it."""

    async def __aenter__(self) -> "CommitProxy":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut_all()

    @property
    def url(self) -> str:
        """The same database, through here."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        credentials = f"{self._parts.username}:{self._parts.password}"
        return urlunsplit(self._parts._replace(netloc=f"{credentials}@127.0.0.1:{port}"))

    def hold(self, *marks: str) -> asyncio.Event:
        """Keep back the answer to the COMMIT of the transaction that sends all `marks` at once; set when it came."""
        return self._marks.setdefault(tuple(mark.encode() for mark in marks), asyncio.Event())

    def release(self) -> None:
        """Let the answers kept back go on their way."""
        self._marks.clear()
        for link in list(self._links):
            link.release()

    def cut_held(self) -> None:
        """Close the connections whose answer is kept back: committed, and the client sees a broken connection."""
        self._marks.clear()
        for link in list(self._links):
            if link.held:
                link.close()

    def event_in(self, data: bytes) -> asyncio.Event | None:
        return next((event for marks, event in self._marks.items() if all(mark in data for mark in marks)), None)

    def cut_all(self) -> None:
        for link in list(self._links):
            link.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._upstream)
        except OSError:
            writer.close()
            return
        link = _Link(self, (reader, writer), (up_reader, up_writer))
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)
            link.close()


class _Link:
    """One connection. A mark seen since the last COMMIT says that the next one is to be held."""

    def __init__(
        self,
        proxy: CommitProxy,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._proxy = proxy
        self._client, self._server = client, server
        self._seen: asyncio.Event | None = None
        self._held: bytes | None = None
        self._waiting = False

    @property
    def held(self) -> bool:
        return self._held is not None

    async def run(self) -> None:
        up = asyncio.create_task(self._to_server())
        down = asyncio.create_task(self._to_client())
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        for task in (up, down):
            task.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await task

    async def _to_server(self) -> None:
        while data := await self._client[0].read(65536):
            self._seen = self._proxy.event_in(data) or self._seen
            if COMMIT.search(data) and self._seen is not None:
                if self._proxy.before_commit:
                    self._seen.set()
                    continue
                self._waiting = True
            self._server[1].write(data)
            await self._server[1].drain()

    async def _to_client(self) -> None:
        while data := await self._server[0].read(65536):
            if self._waiting and COMMITTED in data:
                self._held, self._waiting = data, False
                assert self._seen is not None
                self._seen.set()
                self._seen = None
                continue
            self._client[1].write(data)
            await self._client[1].drain()

    def release(self) -> None:
        if self._held is not None:
            self._client[1].write(self._held)
        self._held, self._seen, self._waiting = None, None, False

    def close(self) -> None:
        for _, writer in (self._client, self._server):
            writer.close()
