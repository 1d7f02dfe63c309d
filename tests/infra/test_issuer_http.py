"""Asking an identity provider: a real socket that redirects, floods, lies and hangs."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpuaas.infra.oidc import bounded_http
from gpuaas.infra.oidc.bounded_http import BoundedHttp, IssuerRefused, check_address
from gpuaas.infra.oidc.client import OidcClient
from gpuaas.infra.oidc.discovery import DiscoveredKeys, Discovery
from gpuaas.kit import clock
from gpuaas.kit.errors import Unavailable

DOCUMENT = "/.well-known/openid-configuration"


@dataclass
class Liar:
    """Answers as it is told, path by path, with raw bytes."""

    port: int = 0
    answers: dict[str, bytes | float] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def says(self, path: str, body: Any, status: str = "200 OK", headers: str = "") -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"HTTP/1.1 {status}\r\ncontent-length: {len(raw)}\r\ncontent-type: application/json\r\n{headers}\r\n"
        self.answers[path] = head.encode() + raw

    def document(self, **changed: Any) -> None:
        self.says(DOCUMENT, {
            "issuer": self.url, "authorization_endpoint": f"{self.url}/auth", "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks", "code_challenge_methods_supported": ["S256"],
        } | changed)  # fmt: skip

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
            path = head.split(" ")[1]
            self.asked.append(path)
            said = self.answers.get(path, b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            if isinstance(said, float):
                await asyncio.sleep(said)
                break
            writer.write(said)
            await writer.drain()


@pytest.fixture
async def liar() -> AsyncIterator[Liar]:
    made = Liar()

    talking: set[asyncio.Task[None] | None] = set()

    async def serve(reader, writer):
        talking.add(asyncio.current_task())
        try:
            await made.answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()
    tasks = [task for task in talking if task is not None]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await server.wait_closed()


@pytest.fixture
async def http() -> AsyncIterator[BoundedHttp]:
    made = BoundedHttp()
    yield made
    await made.close()


async def test_a_good_document_is_read_once_an_hour(liar, http):
    liar.document()
    discovery = Discovery(liar.url, http)
    assert (await discovery.metadata()).jwks_uri == f"{liar.url}/jwks"
    await discovery.metadata()
    assert liar.asked == [DOCUMENT]


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": "https://evil.example"}, {"issuer": "{url}/"}, {"token_endpoint": "http://evil.example/token"},
        {"jwks_uri": "http://169.254.169.254/jwks"}, {"jwks_uri": "file:///etc/passwd"}, {"jwks_uri": 5},
        {"token_endpoint": "https://user:secret@evil.example/"}, {"authorization_endpoint": None},
        {"code_challenge_methods_supported": ["plain"]}, {"revocation_endpoint": "http://[::1"},
    ],
    ids=str,
)  # fmt: skip
async def test_a_document_that_cannot_be_trusted_is_refused(liar, http, changed):
    liar.document(**{name: value.format(url=liar.url) if isinstance(value, str) else value
                     for name, value in changed.items()})  # fmt: skip
    with pytest.raises(Unavailable):
        await Discovery(liar.url, http).metadata()


async def test_a_redirect_is_not_followed(liar, http):
    liar.says(DOCUMENT, {}, "302 Found", f"location: {liar.url}/elsewhere\r\n")
    with pytest.raises(Unavailable):
        await Discovery(liar.url, http).metadata()
    assert "/elsewhere" not in liar.asked


@pytest.mark.parametrize("body", [b"[]", b"null", b"<html>", b"\xff\xfe", b'{"a":', b"5"])
async def test_what_is_not_a_json_object_is_refused(liar, http, body):
    liar.says("/x", body)
    with pytest.raises(Unavailable):
        await http.get(liar.url + "/x")


async def test_an_answer_without_end_is_cut_off(liar, http):
    liar.says("/x", b'{"a": "' + b"x" * bounded_http.MAX_ANSWER_BYTES + b'"}')
    with pytest.raises(Unavailable) as cut:
        await http.get(liar.url + "/x")
    assert "more than" in cut.value.log


async def test_an_answer_that_does_not_come_is_given_up(liar, http, monkeypatch):
    monkeypatch.setattr(bounded_http, "TOTAL_SECONDS", 0.3)
    liar.answers["/x"] = 30.0
    started = clock.monotonic()
    with pytest.raises(Unavailable):
        await http.get(liar.url + "/x")
    assert clock.monotonic() - started < 2


@pytest.mark.parametrize("status", ["500 Oops", "503 Away", "429 Slow"])
async def test_trouble_at_the_issuer_is_to_try_again(liar, http, status):
    liar.says("/x", {"error": "server_error"}, status)
    with pytest.raises(Unavailable):
        await http.post(liar.url + "/x", {})


async def test_a_refusal_of_the_issuer_keeps_its_word(liar, http):
    liar.says("/x", {"error": "invalid_grant"}, "400 Bad Request")
    with pytest.raises(IssuerRefused) as refused:
        await http.post(liar.url + "/x", {})
    assert (refused.value.error, refused.value.status) == ("invalid_grant", 400)


async def test_the_last_good_document_stays_while_the_issuer_is_away(liar, http, monkeypatch):
    liar.document()
    discovery = Discovery(liar.url, http)
    good = await discovery.metadata()
    monkeypatch.setattr("gpuaas.infra.oidc.discovery.REFRESH_SECONDS", 0.0)
    monkeypatch.setattr("gpuaas.infra.oidc.discovery.RETRY_SECONDS", 0.0)
    liar.says(DOCUMENT, {}, "503 Away")
    assert await discovery.metadata() == good


async def test_keys_are_read_where_the_document_says(liar, http):
    liar.document()
    liar.says("/jwks", {"keys": []})
    assert await DiscoveredKeys(Discovery(liar.url, http), http).fetch() == {"keys": []}


@pytest.mark.parametrize("answer", [{}, {"access_token": 5}, {"access_token": "x", "token_type": "mac"}])
async def test_tokens_that_are_none_are_refused(liar, http, answer):
    liar.document()
    liar.says("/token", answer)
    client = OidcClient(Discovery(liar.url, http), http, client_id="c", public_url="http://127.0.0.1")
    with pytest.raises(Unavailable):
        await client.refresh("r")


async def test_an_issuer_without_revocation_says_so(liar, http):
    liar.document()
    client = OidcClient(Discovery(liar.url, http), http, client_id="c", public_url="http://127.0.0.1")
    assert not await client.revoke("r")
    assert await client.userinfo("a") == {}


@pytest.mark.parametrize(
    "bad", ["http://example.com", "ftp://127.0.0.1", "https://", "https://a@b.example", "https://b.example/#x", "", "x"]
)
def test_only_https_or_this_machine_is_asked(bad):
    with pytest.raises(ValueError, match="address"):
        check_address(bad)


def test_https_and_this_machine_are_addresses_to_ask():
    for good in ("https://issuer.example", "http://127.0.0.1:1/x", "http://[::1]:5/", "http://localhost/"):
        assert check_address(good) == good


async def test_an_issuer_elsewhere_does_not_send_us_to_this_machine(http, monkeypatch):
    document = {
        "issuer": "https://idp.example",
        "authorization_endpoint": "https://idp.example/authorize",
        "token_endpoint": "https://idp.example/token",
        "jwks_uri": "http://127.0.0.1:9090/metrics",
    }

    async def said(url: str) -> dict[str, str]:
        return document

    monkeypatch.setattr(http, "get", said)
    with pytest.raises(Unavailable):
        await Discovery("https://idp.example", http).metadata()
