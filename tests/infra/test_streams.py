"""Answers that are sent as they come, on the server as it runs: whole, or visibly cut."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.http.app import App
from gpuaas.infra.http.context import PublicContext
from gpuaas.infra.http.operation import Lane, Registry, Stream, operation
from gpuaas.infra.http.pipeline import Edge
from gpuaas.infra.http.server import listen, make_server, serve
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.parts import Parts

registry = Registry()


async def chunks(good: int, *, fails: bool) -> AsyncIterator[bytes]:
    for number in range(good):
        yield f"{number}\n".encode()
    if fails:
        raise RuntimeError("the database went away")


@operation("GET", "/streams/whole", lane=Lane.DEFAULT, transaction=False, produces="text/plain", registry=registry)
async def stream_whole(cx: PublicContext) -> Stream:
    """A stream that ends well."""
    return Stream(chunks(3, fails=False), "text/plain", "whole")


@operation("GET", "/streams/empty", lane=Lane.DEFAULT, transaction=False, produces="text/plain", registry=registry)
async def stream_empty(cx: PublicContext) -> Stream:
    """A stream of nothing."""
    return Stream(chunks(0, fails=False), "text/plain", "empty")


@operation("GET", "/streams/early", lane=Lane.DEFAULT, transaction=False, produces="text/plain", registry=registry)
async def stream_early(cx: PublicContext) -> Stream:
    """A stream that fails before it begins."""
    return Stream(chunks(0, fails=True), "text/plain", "early")


@operation("GET", "/streams/cut", lane=Lane.DEFAULT, transaction=False, produces="text/plain", registry=registry)
async def stream_cut(cx: PublicContext) -> Stream:
    """A stream that fails midway."""
    return Stream(chunks(2, fails=True), "text/plain", "cut")


@pytest.fixture
async def http(db: Database) -> AsyncIterator[httpx.AsyncClient]:
    nobody: Any = None  # is asked: all here is public
    edge = Edge(db=db, authority=nobody, policy=MemoryPolicy(), cursor_key=b"k" * 32, parts=Parts())
    listener, stop = listen("127.0.0.1", 0), asyncio.Event()
    port = listener.getsockname()[1]
    server = make_server(App(registry, edge, pages={}), host="127.0.0.1", port=0)
    serving = asyncio.create_task(serve(server, listener, stop))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1", timeout=10) as client:
        yield client
    stop.set()
    await serving


async def test_a_stream_arrives_whole_also_when_it_is_empty(http):
    assert (await http.get("/streams/whole")).text == "0\n1\n2\n"
    assert ((await http.get("/streams/empty")).status_code, (await http.get("/streams/empty")).text) == (200, "")


async def test_a_stream_that_fails_before_its_first_chunk_is_answered_like_any_failure(http):
    answer = await http.get("/streams/early")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")


async def test_a_stream_that_fails_midway_is_cut_and_told_in_one_line(http, caplog):
    with capture_logs() as told, caplog.at_level(logging.WARNING):
        got = b""
        with pytest.raises(httpx.RemoteProtocolError):
            async with http.stream("GET", "/streams/cut") as answer:
                async for chunk in answer.aiter_bytes():
                    got += chunk
        await asyncio.sleep(0.1)
    assert (answer.status_code, got) == (200, b"0\n1\n")
    assert [(line["event"], line["path"], line["reason"]) for line in told] == [
        ("stream broke off", "/api/v1/streams/cut", "RuntimeError: the database went away")
    ]
    assert caplog.records == []
    assert (await http.get("/streams/whole")).status_code == 200
