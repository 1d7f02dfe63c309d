"""A load of HTTP requests over keep-alive connections, from a process of its own: as little client as possible, so that
what is measured is the server.

    python -m bench.load PORT[,PORT…] CONNECTIONS SECONDS < request-template

The template is a raw HTTP request; `{n}` in it becomes a number that never repeats. Several servers are asked in short
turns, so that whatever else the machine does slows all of them alike. Prints for each server requests, errors and
seconds."""

import asyncio
import sys
import time
from collections.abc import Callable

import uvloop

HEAD_END = b"\r\n\r\n"
TURN_SECONDS = 0.2


class Connection(asyncio.Protocol):
    """One request at a time, the next as soon as the answer is whole; none while it is not its turn."""

    def __init__(self, make: Callable[[], bytes], tally: list[int]) -> None:
        self._make = make
        self._tally = tally
        self._buffer = b""
        self._transport: asyncio.Transport
        self._idle = asyncio.Event()
        self._stopped = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment] # uvloop's transports are not subclasses

    def go(self) -> None:
        self._stopped = False
        self._idle.clear()
        self._transport.write(self._make())

    async def stop(self) -> None:
        self._stopped = True
        await self._idle.wait()

    def close(self) -> None:
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._idle.set()

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
        if self._stopped:
            self._idle.set()
        else:
            self._transport.write(self._make())


def _length(buffer: bytes, end: int) -> int:
    at = buffer.find(b"content-length: ", 0, end)
    return int(buffer[at + 16 : buffer.find(b"\r", at)])


class Load:
    """What one server is asked, and how it did."""

    def __init__(self, connections: list[Connection], tally: list[int]) -> None:
        self._connections = connections
        self._tally = tally
        self._done, self._spent = 0, 0.0

    async def turn(self, seconds: float) -> None:
        before, started = self._tally[0], time.perf_counter()
        for connection in self._connections:
            connection.go()
        await asyncio.sleep(seconds)
        self._done += self._tally[0] - before
        self._spent += time.perf_counter() - started
        for connection in self._connections:
            await connection.stop()

    def report(self) -> str:
        for connection in self._connections:
            connection.close()
        return f"{self._done} {self._tally[1]} {self._spent}"


async def run(ports: list[int], connections: int, seconds: float, template: bytes) -> list[str]:
    loop, count = asyncio.get_running_loop(), [time.time_ns()]

    def make() -> bytes:
        if b"{n}" not in template:
            return template
        count[0] += 1
        return template.replace(b"{n}", str(count[0]).encode())

    async def load(port: int) -> Load:
        tally = [0, 0]
        made = [
            await loop.create_connection(lambda: Connection(make, tally), "127.0.0.1", port) for _ in range(connections)
        ]
        return Load([connection for _, connection in made], tally)

    loads = [await load(port) for port in ports]
    turn = TURN_SECONDS if len(loads) > 1 else seconds
    for _ in range(round(seconds / turn)):
        for each in loads:
            await each.turn(turn)
    return [each.report() for each in loads]


def main() -> None:
    ports, connections, seconds = sys.argv[1].split(","), int(sys.argv[2]), float(sys.argv[3])
    for line in uvloop.run(run([int(port) for port in ports], connections, seconds, sys.stdin.buffer.read())):
        print(line)


if __name__ == "__main__":
    main()
