"""Connections that are opened and closed at once: nothing is sent and nothing is read."""

import asyncio
import contextlib
import socket
from collections.abc import Sequence

from gpuaas.kit import clock
from gpuaas.ports.prober import Prober, Unreachable

SECONDS = 2.0
MAX_ADDRESSES = 16


class TcpProber(Prober):
    async def resolve(self, host: str) -> Sequence[str]:
        try:
            async with asyncio.timeout(SECONDS):
                found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise Unreachable(f"the name {host} does not resolve") from error
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))[:MAX_ADDRESSES]

    async def connect(self, address: str, port: int) -> float:
        started = clock.monotonic()
        try:
            async with asyncio.timeout(SECONDS):
                _, writer = await asyncio.open_connection(address, port)
        except TimeoutError as error:
            raise Unreachable(f"no answer within {SECONDS:.0f} s") from error
        except OSError as error:
            raise Unreachable(error.strerror or "it cannot be reached") from error
        took = (clock.monotonic() - started) * 1000
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return took
