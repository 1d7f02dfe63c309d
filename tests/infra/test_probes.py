"""Probes: what a program says of itself, to anybody who asks, however often and however badly."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from gpuaas.infra.http.probes import MAX_REQUEST_BYTES, Probes, ProbeServer


async def fine() -> str:
    return ""


async def broken() -> str:
    raise RuntimeError("cannot reach postgresql://gpuaas:s3cret@db/x")


async def hangs() -> str:
    await asyncio.sleep(60)
    return ""


async def test_ready_is_said_only_when_all_that_is_required_is_there() -> None:
    found = await Probes("x", required={"a": fine}, wanted={"b": broken}).readiness()
    assert (found.ready, found.degraded) == (True, True)
    found = await Probes("x", required={"a": fine, "b": broken}).readiness()
    assert not found.ready
    assert [check.name for check in found.checks if not check.ok] == ["b"]
    assert "s3cret" not in found.checks[1].reason


async def test_a_check_that_hangs_is_an_answer() -> None:
    async with asyncio.timeout(4):
        found = await Probes("x", required={"a": hangs, "b": hangs}).readiness()
    assert [check.reason for check in found.checks] == ["no answer within 2 s"] * 2


async def test_asking_often_asks_the_things_themselves_once_a_second() -> None:
    asked = 0

    async def count() -> str:
        nonlocal asked
        asked += 1
        return ""

    probes = Probes("x", required={"a": count})
    await asyncio.gather(*(probes.answer("/readyz") for _ in range(50)))
    assert asked == 1
    probes.stop()
    answer = await probes.answer("/readyz")
    assert answer.status == 503
    assert b"stopping" in answer.body


@pytest.fixture
async def port() -> AsyncIterator[int]:
    server = ProbeServer(Probes("x", required={"a": fine}), "127.0.0.1", 0)
    yield await server.start()
    await server.stop()


async def speak(port: int, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    writer.write_eof()
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_the_small_listener_answers_get_and_survives_anything(port: int) -> None:
    for rubbish in (b"", b"\r\n\r\n", b"\x00\xff\r\n\r\n", b"GET", b"A" * (MAX_REQUEST_BYTES * 3)):
        answer = await speak(port, rubbish)
        assert b"200 OK" not in answer.split(b"\r\n")[0]
    head, _, body = (await speak(port, b"GET /readyz?x=1 HTTP/1.1\r\nHost: x\r\n\r\n")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert msgspec.json.decode(body)["ready"]
    assert b"python_info" in await speak(port, b"GET /metrics HTTP/1.0\r\n\r\n")
    assert (await speak(port, b"DELETE /readyz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405")
    assert (await speak(port, b"GET /etc/passwd HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404")
