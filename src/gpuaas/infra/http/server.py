"""uvicorn as we run it: uvloop, httptools, bounded; even what is not HTTP is answered in the catalogue's shape.

Always holds: a request's head is read for a bounded time and up to a bounded size, whatever comes in its place."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import ErrorBody, ErrorResponse
from gpuaas.kit.ids import new_id

KEEP_ALIVE_SECONDS = 75
STOP_SECONDS = 8
BACKLOG = 1024
HEAD_BYTES = 32 * 1024
HEAD_SECONDS = 15.0
GATHERED_BYTES = 4096
GATHERED_WRITES = 8


class Gathered:
    """A transport that sends together what is written to it in one turn of the loop: the server writes an answer's head
    and its body apart, and each would be a packet of its own that wakes the reader."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._written: list[bytes] = []
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        if not self._written:
            self._loop.call_soon(self._send)
        self._written.append(data)
        if len(data) > GATHERED_BYTES or len(self._written) > GATHERED_WRITES:
            self._send()  # whoever writes much is told by the transport to wait

    def _send(self) -> None:
        if self._written and not self._transport.is_closing():
            self._transport.write(b"".join(self._written))
        self._written.clear()

    def close(self) -> None:
        self._send()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class CatalogueProtocol(HttpToolsProtocol):
    """What cannot be parsed as HTTP never reaches the application; it is refused here, in the same shape."""

    _in_head = True
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(Gathered(transport, self.loop))  # type: ignore[arg-type] # all of it uvicorn uses
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            if self._head_bytes > HEAD_BYTES:
                self.send_400_response("")
            elif self._head_bytes and self._head_timer is None:
                self._start_timer()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._in_head = False
        if self._head_bytes > HEAD_BYTES:
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > HEAD_BYTES:
                raise ValueError("the head is too large")  # the parser's caller refuses it
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head, self._head_bytes = True, 0
        super().on_message_complete()

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if self._in_head and not self.transport.is_closing():
            self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        correlation = new_id().hex
        body = msgspec.json.encode(
            ErrorResponse(
                error=ErrorBody(
                    code=Code.REQUEST_MALFORMED,
                    message="This is not a well-formed HTTP request, or its head is too large or too slow.",
                    correlation_id=correlation,
                )
            )
        )
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
            f"content-length: {len(body)}\r\nx-correlation-id: {correlation}\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


def _said_before(record: logging.LogRecord) -> bool:
    """An answer left without its end was cut on purpose, and the application has said why."""
    return "without completing response" not in str(record.msg)


def make_server(
    app: Any, *, host: str, port: int, protocol: type[CatalogueProtocol] = CatalogueProtocol
) -> uvicorn.Server:
    logging.getLogger("uvicorn.error").addFilter(_said_before)
    return QuietServer(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            loop="uvloop",
            http=protocol,
            ws="websockets-sansio",
            lifespan="off",
            access_log=False,
            log_config=None,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
            backlog=BACKLOG,
        )
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, or OSError at once: a port in use is said before anything else is started."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio leaves Nagle on
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


class QuietServer(uvicorn.Server):
    """Leaves the process's signals to main: it stops when it is told to, and there may be two of it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(server: uvicorn.Server, listener: socket.socket, stop: asyncio.Event, *more: socket.socket) -> None:
    """Serve until `stop`. Whatever ends it, others who wait for the same are told to end, too."""
    serving = asyncio.create_task(server.serve(sockets=[listener, *more]))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    stop.set()
    stopping.cancel()
    await serving


class AgentProtocol(CatalogueProtocol):
    """Over mTLS: hands the application the certificate the peer proved to hold."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        self.peer_certificate: bytes | None = tls.getpeercert(binary_form=True) if tls is not None else None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["peer_certificate"] = self.peer_certificate  # type: ignore[typeddict-unknown-key] # our own key
