"""What comes over the wire and is not what it should be, by raw sockets to the live API: always an answer in the
catalogue's shape, within a second, and the server goes on serving."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from gpuaas.contracts.error_codes import CATALOGUE, Code
from gpuaas.infra.http import request as http_request
from gpuaas.infra.http import server
from gpuaas.kit.ids import new_id
from tests.every.asking import Asking
from tests.every.conftest import asking
from tests.every.world import Setting, make_setting
from tests.support.live import LiveApi, live_api, make_settings, mint_for, serving

__all__ = ["asking", "live_api"]


@dataclass(frozen=True)
class Said:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """Of an error in the catalogue's shape, and nothing else."""
        assert self.headers["content-type"] == "application/json", self
        error = json.loads(self.body)["error"]
        assert set(error) == {"code", "message", "correlation_id", "details"}
        assert error["correlation_id"] == self.headers["x-correlation-id"]
        assert CATALOGUE[Code(error["code"])][0].status == self.status
        return str(error["code"])


async def read_answer(reader: asyncio.StreamReader, *, body: bool = True) -> Said:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    content = await reader.readexactly(int(headers.get("content-length", "0"))) if body else b""
    return Said(int(first.split(" ")[1]), headers, content)


async def say(live: LiveApi, data: bytes, *, seconds: float = 5.0) -> Said:
    """Whatever bytes, and the first answer to them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", live.port)
    try:
        writer.write(data)
        async with asyncio.timeout(seconds):
            await writer.drain()
            return await read_answer(reader, body=not data.startswith(b"HEAD "))
    finally:
        writer.close()


async def assert_serving(live: LiveApi) -> None:
    assert (await live.client.get("/healthz")).status_code == 200


@dataclass(frozen=True)
class Owner:
    live: LiveApi
    setting: Setting
    token: str

    def post(self, body: bytes, *headers: str, length: bool = True) -> bytes:
        """A project is asked for; all headers that are not said here are right."""
        lines = [
            f"POST /api/v1/orgs/{self.setting.org_id}/projects HTTP/1.1",
            "Host: x",
            f"Authorization: Bearer {self.token}",
            *headers,
        ]
        named = {line.split(":")[0].lower() for line in headers}
        if "idempotency-key" not in named:
            lines.append(f"Idempotency-Key: {new_id().hex}")
        if "content-type" not in named:
            lines.append("Content-Type: application/json")
        if length:
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body

    def get(self, target: str, *headers: str) -> bytes:
        lines = [f"GET {target} HTTP/1.1", "Host: x", f"Authorization: Bearer {self.token}", *headers]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


@pytest.fixture(scope="module")
async def owner(asking: Asking) -> Owner:
    s = await asking.setting()
    return Owner(asking.live, s, asking.live.token_for(s.people["owner"]))


def project(name: str = "") -> bytes:
    return json.dumps({"name": name or f"p-{new_id().hex[-12:]}"}).encode()


async def test_a_right_request_by_the_same_way_is_done(owner: Owner):
    assert (await say(owner.live, owner.post(project()))).status == 201


GARBAGE = {
    "not http": b"\x00\x01\x02\x03\r\n\r\n",
    "tls": bytes.fromhex("16030100a5010000a10303") + b"\x00" * 60,
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "unknown method": b"BREW /api/v1/orgs HTTP/1.1\r\nHost: x\r\n\r\n",
    "lower-case method": b"get /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "another version": b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n",
    "connect": b"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "asterisk": b"GET * HTTP/1.1\r\nHost: x\r\n\r\n",
    "bytes in the path": b"GET /api/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "a blank in the path": b"GET /api/v1 /orgs HTTP/1.1\r\nHost: x\r\n\r\n",
    "a NUL in the path": b"GET /api/\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a header without a name": b"GET /healthz HTTP/1.1\r\n: x\r\n\r\n",
    "a blank before the colon": b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n",
    "a NUL in a header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: a\x00b\r\n\r\n",
    "a folded header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: a\r\n b\r\n\r\n",
    "a carriage return alone": b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: a\rX-B: b\r\n\r\n",
    "two different lengths": b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "two equal lengths": b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "a list of lengths": b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 5\r\n\r\nhello",
    "a negative length": b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    "a signed length": b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello",
    "an endless length": b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 40 + b"\r\n\r\n",
    "length and chunks": (
        b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "chunks twice": b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a bad chunk size": b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("kind", GARBAGE)
async def test_what_is_not_http_is_refused_in_the_catalogues_shape(owner: Owner, kind: str):
    said = await say(owner.live, GARBAGE[kind])
    assert (said.status, said.code) in {(400, "request_malformed"), (404, "route_missing"), (413, "body_too_large")}
    await assert_serving(owner.live)


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PROPFIND", "PUT"])
async def test_a_method_a_path_does_not_take_is_refused_and_the_others_named(owner: Owner, method: str):
    said = await say(owner.live, owner.get("/api/v1/orgs").replace(b"GET", method.encode(), 1))
    assert said.status == 405
    assert said.headers["allow"] == "GET, POST"
    if method != "HEAD":
        assert said.code == "method_not_allowed"


async def test_an_upgrade_is_not_made(owner: Owner):
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    assert (await say(owner.live, owner.get("/api/v1/users/me", *upgrade, key))).code == "route_missing"
    other = owner.get("/api/v1/users/me", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: x")
    assert (await say(owner.live, other)).status == 200
    assert (await say(owner.live, owner.get("/api/v1/users/me", *upgrade))).status in {400, 426}
    await assert_serving(owner.live)


@pytest.mark.parametrize("name", ["Authorization", "Idempotency-Key", "Content-Type", "Host", "X-Correlation-Id"])
async def test_a_header_that_counts_once_is_refused_twice(owner: Owner, name: str):
    value = {"Authorization": f"Bearer {owner.token}", "Content-Type": "application/json"}.get(name, "12345678")
    before = owner.post(project(), *([f"{name}: {value}"] if name in {"Idempotency-Key", "X-Correlation-Id"} else []))
    said = await say(owner.live, before.replace(b"\r\n\r\n", f"\r\n{name}: {value}\r\n\r\n".encode(), 1))
    assert (said.status, said.code) == (400, "request_malformed")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1%2Fusers%2Fme",
        "/api/v1/users%2fme",
        "/api%5Cv1/users/me",
        "/api/v1/users/me/",
        "//api/v1/users/me",
        "/api//v1/users/me",
        "/api/v1/./users/me",
        "/api/v1/orgs/../users/me",
        "/api/v1/users/me%00",
        "/api/v1/users/me%20",
        "/API/v1/users/me",
        "/api/v1/users/me;x=1",
        "/api/v1/users/me%0d%0aX-Evil:%201",
        "/api/v1/users/%6De%2e",
    ],
)
async def test_a_path_is_read_as_it_stands(owner: Owner, path: str):
    """One spelling of each path: a rule of a proxy before us cannot be gone around."""
    said = await say(owner.live, owner.get(path))
    assert (said.status, said.code) in {(404, "route_missing"), (400, "request_malformed")}
    assert "x-evil" not in said.headers


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=0", 422),
        ("limit=201", 422),
        ("limit=-1", 422),
        ("limit=1.0", 422),
        ("limit=1e2", 422),
        ("limit=%201", 422),
        ("limit=0x10", 422),
        ("limit=" + "9" * 30, 422),
        ("limit=NaN", 422),
        ("limit=null", 422),
        ("limit=", 422),
        ("limit=1&limit=2", 422),
        ("unknown=1", 422),
        ("limit=%00", 422),
        ("limit=%zz", 422),
        ("limit=%ff", 400),
        ("&".join(f"a{n}=1" for n in range(100)), 400),
        ("cursor=null", 422),
        ("cursor=x", 400),
        ("cursor=" + "A" * 1001, 422),
        ("cursor=" + "A" * 900, 400),
        ("cursor=%0d%0a", 400),
        ("cursor=%E2%80%AE", 400),
    ],
)
async def test_a_query_is_read_strictly(owner: Owner, query: str, status: int):
    said = await say(owner.live, owner.get(f"/api/v1/orgs?{query}"))
    assert said.status == status, said.body
    assert said.code in {"request_invalid", "request_malformed", "cursor_refused"}


async def test_a_query_nobody_takes_is_refused(owner: Owner):
    for query in ("a=1", "%ff=1", "&".join(f"a{n}=1" for n in range(100)), "a=1&a=2"):
        said = await say(owner.live, owner.get(f"/api/v1/users/me?{query}"))
        assert said.code in {"request_invalid", "request_malformed"}


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        (("Content-Type: text/plain",), 415, "content_type_unsupported"),
        (("Content-Type: application/x-www-form-urlencoded",), 415, "content_type_unsupported"),
        (("Content-Type: multipart/form-data; boundary=x",), 415, "content_type_unsupported"),
        (("Content-Type: application/json-patch+json",), 415, "content_type_unsupported"),
        (("Content-Type:",), 415, "content_type_unsupported"),
        (("Content-Encoding: gzip",), 415, "content_encoding_unsupported"),
        (("Content-Encoding: br, gzip",), 415, "content_encoding_unsupported"),
        (("Idempotency-Key: with blank",), 400, "idempotency_key_invalid"),
        (("Idempotency-Key:",), 400, "idempotency_key_invalid"),
        (("Idempotency-Key: " + "k" * 201,), 400, "idempotency_key_invalid"),
        (("Idempotency-Key: \xfc",), 400, "idempotency_key_invalid"),
    ],
)
async def test_headers_that_do_not_fit_are_refused(owner: Owner, headers, status, code):
    said = await say(owner.live, owner.post(project(), *headers))
    assert (said.status, said.code) == (status, code)


async def test_a_compressed_bomb_is_refused_unopened(owner: Owner):
    bomb = gzip.compress(b"0" * 20_000_000)
    said = await say(owner.live, owner.post(bomb, "Content-Encoding: gzip"))
    assert (said.status, said.code) == (415, "content_encoding_unsupported")


@pytest.mark.parametrize("how", ["said", "unsaid"])
async def test_a_body_too_large_is_refused_whether_it_says_so_or_not(owner: Owner, how: str):
    large = b'{"name": "' + b"a" * 1_000_000 + b'"}'
    if how == "said":
        request = owner.post(b"", length=False).replace(b"\r\n\r\n", b"\r\nContent-Length: %d\r\n\r\n" % len(large), 1)
    else:
        chunk = b"8000\r\n" + large[:0x8000] + b"\r\n"
        request = owner.post(b"", "Transfer-Encoding: chunked", length=False) + chunk * 4
    said = await say(owner.live, request)
    assert (said.status, said.code) == (413, "body_too_large")
    await assert_serving(owner.live)


async def test_a_slow_body_is_given_up(owner: Owner, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_request, "BODY_SECONDS", 0.3)
    said = await say(
        owner.live, owner.post(b"{", length=False).replace(b"\r\n\r\n", b"\r\nContent-Length: 100\r\n\r\n", 1)
    )
    assert (said.status, said.code) == (400, "body_timeout")
    await assert_serving(owner.live)


@pytest.mark.parametrize("start", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"GET /hea"])
async def test_a_slow_head_is_given_up(owner: Owner, monkeypatch: pytest.MonkeyPatch, start: bytes):
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.3)
    said = await say(owner.live, start)
    assert (said.status, said.code) == (400, "request_malformed")


async def test_a_slow_second_head_is_given_up(owner: Owner, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.3)
    reader, writer = await asyncio.open_connection("127.0.0.1", owner.live.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await read_answer(reader)).status == 200
    await asyncio.sleep(0.5)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")  # an idle connection is not a slow one
    assert (await read_answer(reader)).status == 200
    writer.write(b"GET /heal")
    async with asyncio.timeout(5):
        assert (await read_answer(reader)).code == "request_malformed"
    writer.close()


@pytest.mark.parametrize(
    "head",
    [
        b"X-Large: " + b"a" * 100_000 + b"\r\n",
        b"".join(b"X-%d: %s\r\n" % (n, b"a" * 100) for n in range(1000)),
        b"X-Endless: " + b"a" * 5_000_000,
    ],
)
async def test_a_head_too_large_is_refused(owner: Owner, head: bytes):
    for cut in (len(head), 10_000):
        reader, writer = await asyncio.open_connection("127.0.0.1", owner.live.port)
        request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n"
        try:
            for start in range(0, len(request), cut):
                writer.write(request[start : start + cut])
                await writer.drain()
        except ConnectionError:
            pass  # refused before all of it was sent
        # It may have sent on after the refusal; then the kernel throws the answer away.
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            async with asyncio.timeout(5):
                assert (await read_answer(reader)).code == "request_malformed"
        writer.close()
    await assert_serving(owner.live)


async def test_a_head_of_ordinary_size_is_taken(owner: Owner):
    said = await say(owner.live, owner.get("/api/v1/users/me", *(f"X-{n}: {'a' * 100}" for n in range(100))))
    assert said.status == 200


async def test_a_long_path_is_refused(owner: Owner):
    assert (await say(owner.live, owner.get("/api/v1/" + "a" * 20_000))).code == "route_missing"
    assert (await say(owner.live, owner.get("/api/v1/" + "a" * 40_000))).code == "request_malformed"


async def test_requests_in_a_row_on_one_connection_are_answered_in_order(owner: Owner):
    reader, writer = await asyncio.open_connection("127.0.0.1", owner.live.port)
    writer.write(b"".join(owner.get("/api/v1/users/me", f"X-Correlation-Id: in-a-row-{n}") for n in range(20)))
    async with asyncio.timeout(10):
        found = [(await read_answer(reader)).headers["x-correlation-id"] for _ in range(20)]
    assert found == [f"in-a-row-{n}" for n in range(20)]
    writer.close()


async def test_connections_that_say_nothing_keep_nobody_out(owner: Owner):
    silent = [await asyncio.open_connection("127.0.0.1", owner.live.port) for _ in range(200)]
    await assert_serving(owner.live)
    assert (await say(owner.live, owner.get("/api/v1/users/me"))).status == 200
    for _, writer in silent:
        writer.close()


async def test_a_client_that_leaves_in_the_middle_is_no_failure(owner: Owner):
    for data in (
        owner.post(b"{", length=False).replace(b"\r\n\r\n", b"\r\nContent-Length: 99\r\n\r\n", 1),
        owner.get("/api/v1/users/me"),
        b"GET",
    ):
        _, writer = await asyncio.open_connection("127.0.0.1", owner.live.port)
        writer.write(data)
        await writer.drain()
        writer.transport.abort()
    await asyncio.sleep(0.1)
    await assert_serving(owner.live)


BODIES: list[tuple[bytes, int]] = [
    (b"", 400),
    (b"nonsense", 400),
    (b"\xff\xfe{}", 400),
    (b'{"name": "a"', 400),
    (b'{"name": "a"} x', 400),
    (b'{"name": NaN}', 400),
    (b"null", 422),
    (b"[]", 422),
    (b'"text"', 422),
    (b"[" * 30_000, 422),
    (b'{"name": ' + b"[" * 20_000, 422),
    (b'{"name": "a", "name": "b"}', 422),
    (b'{"name": "a", "title": {"x": 1, "x": 2}}', 422),
    (b'{"name": "a", "surplus": 1}', 422),
    (b'{"name": ""}', 422),
    (b'{"name": 1}', 422),
    (b'{"name": true}', 422),
    (b'{"name": null}', 422),
    (b'{"name": "a\\u0000b"}', 422),
    (b'{"name": "a\\r\\nb"}', 422),
    (b'{"name": "a\\u202eb"}', 422),
    (b'{"name": "' + b"a" * 60_000 + b'"}', 422),
    (b'{"name": "ok", "title": "a\\u0000"}', 422),
    (b'{"name": "ok", "title": "a\\nb"}', 422),
    (b'{"name": "ok", "title": "\\u202eevil"}', 422),
    (b'{"name": "ok", "title": "\\ud800"}', 400),
    (b'{"name": "ok", "title": ""}', 422),
    (b'{"name": "ok", "title": "\\u001b[2J"}', 422),
]


@pytest.mark.parametrize(("body", "status"), BODIES, ids=range(len(BODIES)))
async def test_a_body_that_is_not_what_it_should_be_is_refused(owner: Owner, body: bytes, status: int):
    said = await say(owner.live, owner.post(body))
    assert said.status == status, said.body
    assert said.code in {"request_malformed", "request_invalid"}


@pytest.mark.parametrize(
    "credential",
    [
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        "Bearer x",
        "Bearer a.b.c",
        "bearer \xfc",
        "Bearer " + "a" * 9000,
        "Bearer gpuaas_sk_unknown",
        "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.",
        "Negotiate x",
        "Bearer a b",
    ],
)
async def test_a_credential_that_is_none_is_refused(owner: Owner, credential: str):
    lines = ["GET /api/v1/users/me HTTP/1.1", "Host: x", f"Authorization: {credential}"]
    said = await say(owner.live, "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
    assert (said.status, said.code) == (401, "credential_invalid")
    assert said.headers["www-authenticate"] == 'Bearer realm="gpuaas"'


async def test_a_correlation_id_is_taken_if_it_is_one(owner: Owner):
    for given, taken in (("abcdefgh", True), ("a" * 65, False), ("short", False), ("with blank!", False)):
        said = await say(owner.live, owner.get("/api/v1/users/me", f"X-Correlation-Id: {given}"))
        assert (said.headers["x-correlation-id"] == given) is taken


FORWARDED = [
    ("X-Forwarded-For: 203.0.113.9", "203.0.113.9"),
    ("X-Forwarded-For: 198.51.100.1, 203.0.113.9", "203.0.113.9"),
    ("X-Forwarded-For: 203.0.113.9, 127.0.0.1", "203.0.113.9"),
    ("X-Forwarded-For: nonsense", "127.0.0.1"),
    ("X-Forwarded-For: nonsense, 203.0.113.9", "203.0.113.9"),
    ("X-Forwarded-For: 203.0.113.9, nonsense", "127.0.0.1"),
    ("X-Forwarded-For:", "127.0.0.1"),
    ("X-Forwarded-For: 2001:db8::1", "2001:db8::1"),
    ("X-Real-Ip: 203.0.113.9", "127.0.0.1"),
    ("Forwarded: for=203.0.113.9", "127.0.0.1"),
]


async def seen_from(asking: Asking, live: Any, owner: Owner, header: str) -> str:
    correlation_id = f"from-{new_id().hex}"
    token = live.token_for(owner.setting.people["owner"])
    asker = Owner(live, owner.setting, token)
    said = await say(live, asker.post(project(), header, f"X-Correlation-Id: {correlation_id}"))
    assert said.status == 201, said.body
    return str(await asking.sql.fetchval("SELECT client_ip FROM audit_log WHERE correlation_id = $1", correlation_id))


@pytest.mark.parametrize(("header", "_"), FORWARDED)
async def test_nobody_says_where_he_comes_from_without_a_trusted_proxy(asking: Asking, owner: Owner, header, _):
    assert await seen_from(asking, owner.live, owner, header) == "127.0.0.1"


@pytest.fixture(scope="module")
async def behind_proxy(live_api: LiveApi, database) -> AsyncIterator[LiveApi]:
    """The same database and people, and loopback is a proxy that is believed."""
    same = {"master_key": live_api.settings.master_key, "issuer_url": "", "trusted_proxies": "127.0.0.0/8"}
    settings = make_settings(database.app, live_api.settings.nats_url, **same)
    async with serving(settings) as client:
        yield LiveApi(settings.public_url, settings, client, await mint_for(settings, database.app))


@pytest.mark.parametrize(("header", "where"), FORWARDED)
async def test_a_trusted_proxy_says_where_somebody_comes_from(asking: Asking, behind_proxy, header, where):
    s = await make_setting(asking.sql, behind_proxy.settings.realm)
    owner = Owner(behind_proxy, s, behind_proxy.token_for(s.people["owner"]))
    assert await seen_from(asking, behind_proxy, owner, header) == where
