"""Sending calls, against a server that misbehaves on purpose: what is tried again, with which key, and for how long."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import pytest

from gpuaas.client import identity
from gpuaas.client.api import Api, Fixed, check_plain_http, pause
from gpuaas.client.errors import ApiError, ClientError, Unreachable
from gpuaas.contracts.http.orgs import OrgCreate

ORG: dict[str, Any] = {
    "id": "01a1e106-d4c9-7fb3-8d58-64ae5b0d1137",
    "name": "acme",
    "title": "Acme",
    "personal": False,
    "created_at": "2026-01-01T00:00:00Z",
    "role": "owner",
}
HANG_UP = 0


def said(status: int, code: str, **headers: str) -> tuple[int, Any, dict[str, str]]:
    error = {"code": code, "message": "No.", "correlation_id": "c0ffee00", "details": [{"field": "a", "reason": "b"}]}
    return status, {"error": error}, headers


class Stubborn(ThreadingHTTPServer):
    """Gives its answers in order, the last one for ever; remembers what was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, Any, dict[str, str]]] = []
        self.asked: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Stubborn

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append({name.lower(): value for name, value in self.headers.items()} | {"path": self.path})
        status, body, headers = self.server.answers[0]
        if len(self.server.answers) > 1:
            self.server.answers.pop(0)
        if status == HANG_UP:
            self.close_connection = True
            return
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in ({"content-length": str(len(content))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Stubborn]:
    with Stubborn() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def api(server: Stubborn) -> Iterator[Api]:
    with Api(server.url, Fixed("a-key")) as made:
        yield made


@pytest.mark.parametrize(
    "first",
    [
        (HANG_UP, b"", {}),
        (502, b"<html>Bad gateway</html>", {}),
        said(503, "overloaded", retry_after="0"),
        said(409, "request_in_progress", retry_after="0"),
    ],
    ids=["hung up", "a proxy's 502", "overloaded", "in progress"],
)
def test_what_may_pass_is_tried_again_with_the_same_key(server: Stubborn, api: Api, first: Any):
    server.answers = [first, (201, ORG, {})]
    assert api.send(identity.org_create(OrgCreate(name="acme"))).name == "acme"
    assert len(server.asked) == 2
    assert len({one["idempotency-key"] for one in server.asked}) == 1
    assert len({one["x-correlation-id"] for one in server.asked}) == 1
    assert {one["authorization"] for one in server.asked} == {"Bearer a-key"}


def test_each_call_has_a_key_of_its_own_and_a_read_has_none(server: Stubborn, api: Api):
    server.answers = [(201, ORG, {})]
    for _ in range(2):
        api.send(identity.org_create(OrgCreate(name="acme")))
    api.send(identity.org_get(UUID(ORG["id"])))
    keys = [one.get("idempotency-key") for one in server.asked]
    assert keys[2] is None
    assert len(set(keys)) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 429, 500])
def test_a_refusal_is_final_and_told_whole(server: Stubborn, api: Api, status: int):
    server.answers = [said(status, "some_code", retry_after="7")]
    with pytest.raises(ApiError) as refused:
        api.send(identity.user_me_get())
    assert len(server.asked) == 1
    error = refused.value
    assert (error.status, error.code, str(error), error.correlation_id) == (status, "some_code", "No.", "c0ffee00")
    assert error.retry_after == 7
    assert [(detail.field, detail.reason) for detail in error.details] == [("a", "b")]


def test_tries_are_bounded(server: Stubborn, api: Api):
    server.answers = [said(503, "overloaded")]
    with pytest.raises(ApiError):
        api.send(identity.user_me_get())
    assert len(server.asked) == 4
    assert [pause(attempt) <= 0.2 * 2 ** (attempt - 1) for attempt in range(1, 4)] == [True] * 3


def test_a_wait_longer_than_our_patience_is_told_instead(server: Stubborn, api: Api):
    server.answers = [said(503, "dependency_unavailable", retry_after="3600")]
    with pytest.raises(ApiError) as refused:
        api.send(identity.user_me_get())
    assert refused.value.retry_after == 3600
    assert len(server.asked) == 1


def test_what_is_not_our_api_is_recognised(server: Stubborn, api: Api):
    server.answers = [(200, b"<html>hello</html>", {})]
    with pytest.raises(ClientError, match="not a GPUaaS"):
        api.send(identity.user_me_get())
    server.answers = [(404, b"<html>nginx</html>", {})]
    with pytest.raises(ApiError, match="not in the way"):
        api.send(identity.user_me_get())
    server.answers = [(302, b"", {"location": "https://elsewhere.example/"})]
    with pytest.raises(ApiError, match="Check the URL"):
        api.send(identity.user_me_get())
    assert len(server.asked) == 3, "a credential does not follow a redirect"


def test_pages_follow_the_cursor(server: Stubborn, api: Api):
    server.answers = [
        (200, {"items": [ORG], "next_cursor": "c2"}, {}),
        (200, {"items": [ORG], "next_cursor": None}, {}),
    ]
    assert [org.name for org in api.items(identity.org_list())] == ["acme", "acme"]
    assert [one["path"] for one in server.asked] == ["/api/v1/orgs?limit=50", "/api/v1/orgs?limit=50&cursor=c2"]


def test_an_expired_credential_is_renewed_once(server: Stubborn):
    class Renewable(Fixed):
        renewals = 0

        def renew(self, refused: str) -> str | None:
            self.renewals += 1
            self._token = "fresh"
            return self._token

    credentials = Renewable("stale")
    server.answers = [said(401, "credential_expired"), (201, ORG, {}), said(401, "credential_expired")]
    with Api(server.url, credentials) as api:
        assert api.send(identity.org_create(OrgCreate(name="acme"))).name == "acme"
        assert [one["authorization"] for one in server.asked] == ["Bearer stale", "Bearer fresh"]
        with pytest.raises(ApiError):
            api.send(identity.user_me_get())
    assert credentials.renewals == 2
    assert len(server.asked) == 4


def test_nobody_listening_is_unreachable():
    with Api("http://127.0.0.1:1") as api, pytest.raises(Unreachable, match="nothing listens there"):
        api.send(identity.user_me_get())


def test_plain_http_is_for_this_machine_only():
    check_plain_http("http://localhost:8080", allowed=False)
    check_plain_http("https://gpu.example.com", allowed=False)
    check_plain_http("http://gpu.example.com", allowed=True)
    with pytest.raises(ClientError, match="plain http"):
        check_plain_http("http://gpu.example.com", allowed=False)
