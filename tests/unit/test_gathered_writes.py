"""Answers leave in one piece: what is written to a connection in one turn of the loop is sent together."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from gpuaas.infra.http.server import GATHERED_BYTES, GATHERED_WRITES, Gathered


@pytest.fixture
async def ends() -> AsyncIterator[tuple[Gathered, socket.socket]]:
    here, there = socket.socketpair()
    there.setblocking(False)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=here)
    yield Gathered(transport, loop), there
    transport.close()
    there.close()


def arrived(end: socket.socket) -> bytes:
    try:
        return end.recv(1 << 20)
    except BlockingIOError:
        return b"(nothing yet)"


async def test_a_head_and_its_body_are_sent_together(ends: tuple[Gathered, socket.socket]) -> None:
    gathered, there = ends
    gathered.write(b"head ")
    gathered.write(b"body")
    assert arrived(there) == b"(nothing yet)"
    await asyncio.sleep(0.05)
    assert arrived(there) == b"head body"
    gathered.write(b"another")
    await asyncio.sleep(0.05)
    assert arrived(there) == b"another"


async def test_much_is_not_held_back(ends: tuple[Gathered, socket.socket]) -> None:
    gathered, there = ends
    gathered.write(b"x" * (GATHERED_BYTES + 1))
    assert gathered._written == []
    for _ in range(GATHERED_WRITES + 1):
        gathered.write(b"y")
    assert gathered._written == []
    await asyncio.sleep(0.05)
    assert arrived(there) == b"x" * (GATHERED_BYTES + 1) + b"y" * (GATHERED_WRITES + 1)


async def test_what_was_written_is_sent_before_the_end(ends: tuple[Gathered, socket.socket]) -> None:
    gathered, there = ends
    gathered.write(b"bye")
    gathered.close()
    await asyncio.sleep(0.05)
    assert arrived(there) == b"bye"
    assert arrived(there) == b""
    gathered.write(b"too late")
    await asyncio.sleep(0.05)
    assert gathered._written == []
