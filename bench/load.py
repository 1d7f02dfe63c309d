"""A load of HTTP requests over keep-alive connections, from a process of its own: as little client as possible, so that
what is measured is the server.

    python -m bench.load PORT CONNECTIONS SECONDS < request-template

The template is a raw HTTP request; `{n}` in it becomes a number that never repeats. Prints requests, errors and
seconds."""

import asyncio
import sys
import time
from collections.abc import Callable

import uvloop

HEAD_END = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """One request at a time, the next as soon as the answer is whole."""

    def __init__(self, make: Callable[[], bytes], tally: list[int]) -> None:
        self._make = make
        self._tally = tally
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self.stopped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment] # uvloop's transports are not subclasses
        self._transport.write(self._make())  # type: ignore[union-attr] # just set

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        end = buffer.find(HEAD_END)
        if end < 0 or len(buffer) < end + 4 + _length(buffer, end):
            self._buffer = buffer
            return
        self._buffer = b""
        self._tally[0] += 1
        if buffer[9] != ord("2"):
            self._tally[1] += 1
            if self._tally[1] == 1:
                print(buffer[:600].decode("latin-1"), file=sys.stderr)
        if not self.stopped and self._transport is not None:
            self._transport.write(self._make())


def _length(buffer: bytes, end: int) -> int:
    at = buffer.find(b"content-length: ", 0, end)
    return int(buffer[at + 16 : buffer.find(b"\r", at)])


async def run(port: int, connections: int, seconds: float, template: bytes) -> tuple[int, int, float]:
    loop, tally, count = asyncio.get_running_loop(), [0, 0], [time.time_ns()]

    def make() -> bytes:
        if b"{n}" not in template:
            return template
        count[0] += 1
        return template.replace(b"{n}", str(count[0]).encode())

    made = [
        await loop.create_connection(lambda: Connection(make, tally), "127.0.0.1", port) for _ in range(connections)
    ]
    before, started = tally[0], time.perf_counter()
    await asyncio.sleep(seconds)
    done, spent = tally[0] - before, time.perf_counter() - started
    for transport, protocol in made:
        protocol.stopped = True
        transport.close()
    return done, tally[1], spent


def main() -> None:
    port, connections, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    done, errors, spent = uvloop.run(run(port, connections, seconds, sys.stdin.buffer.read()))
    print(done, errors, spent)


if __name__ == "__main__":
    main()
