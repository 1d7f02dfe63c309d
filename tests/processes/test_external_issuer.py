"""Logging in at an issuer that is not ours: a certified one, with its own pages, keys and opinions (ID-1, ID-2)."""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import asyncpg
import httpx
import pytest

from gpuaas.infra.embedded.ports import free_port
from gpuaas.infra.oidc import keys as key_cache
from gpuaas.kit.ids import new_id
from tests.support.external_issuer import AUDIENCE, CLIENT_SECRET, ExternalIssuer, log_in
from tests.support.live import make_settings, open_rates, serving
from tests.support.people import found, refusal
from tests.support.servers import DatabaseUrls

CALLBACK = "http://127.0.0.1:8931/callback"


@dataclass(frozen=True)
class Api:
    client: httpx.AsyncClient

    async def ask(self, method: str, path: str, body: Any = None, *, token: str = "", key: str = "") -> httpx.Response:
        headers = {"idempotency-key": key or new_id().hex} if method != "GET" else {}
        if token:
            headers["authorization"] = f"Bearer {token}"
        return await self.client.request(method, "/api/v1" + path, headers=headers, json=body)

    async def start(self) -> Any:
        return found(await self.ask("POST", "/auth/login", {"redirect_uri": CALLBACK}), 200)

    async def log_in(self, login: str) -> Any:
        """Start here, log in there, finish here."""
        started = await self.start()
        back = await log_in(started["authorization_url"], login)
        assert back["state"] == started["state"]
        body = {"authorization_code": back["code"], "state": back["state"]}
        return found(await self.ask("POST", "/auth/login/finish", body), 200)


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalIssuer]:
    made = ExternalIssuer(free_port(), tmp_path_factory.mktemp("issuer") / "issuer.log")
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
async def api(issuer: ExternalIssuer, database: DatabaseUrls, nats_url: str) -> AsyncIterator[Api]:
    await open_rates(database.superuser)
    settings = make_settings(
        database.app, nats_url, issuer_url=issuer.url, oidc_client_id="gpuaas-api", oidc_audience=AUDIENCE,
        oidc_client_secret=CLIENT_SECRET,
    )  # fmt: skip
    async with serving(settings) as client:
        yield Api(client)


async def test_the_first_login_creates_the_user_and_his_organisation_and_the_second_finds_them(api):
    tokens = await api.log_in("ada")
    me = found(await api.ask("GET", "/users/me", token=tokens["access_token"]), 200)
    assert (me["email"], me["email_verified"], me["name"], me["subject"]) == ("ada@example.com", True, "ADA", "ada")
    assert [(org["personal"], org["role"]) for org in me["orgs"]] == [(True, "owner")]
    again = found(await api.ask("GET", "/users/me", token=(await api.log_in("ada"))["access_token"]), 200)
    assert (again["id"], again["orgs"]) == (me["id"], me["orgs"])


async def test_the_address_comes_from_the_id_token_where_the_access_token_is_quiet(api):
    tokens = await api.log_in("quiet-bob")
    me = found(await api.ask("GET", "/users/me", token=tokens["access_token"]), 200)
    assert (me["email"], me["email_verified"], me["name"]) == ("quiet-bob@example.com", True, "QUIET-BOB")
    unsure = (await api.log_in("unsure"))["access_token"]
    assert found(await api.ask("GET", "/users/me", token=unsure), 200)["email_verified"] is False


async def raw_tokens(issuer: ExternalIssuer, login: str) -> dict[str, Any]:
    """The same without our help: another client of the same issuer, straight at its endpoints."""
    verifier = secrets.token_urlsafe(32)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    asked = {
        "client_id": "someone", "response_type": "code", "redirect_uri": CALLBACK, "scope": "openid offline_access",
        "state": "s", "nonce": "n", "prompt": "consent", "code_challenge": challenge, "code_challenge_method": "S256",
        "resource": AUDIENCE,
    }  # fmt: skip
    back = await log_in(f"{issuer.url}/auth?{urlencode(asked)}", login)
    form = {
        "grant_type": "authorization_code", "code": back["code"], "redirect_uri": CALLBACK, "code_verifier": verifier,
        "client_id": "someone", "resource": AUDIENCE,
    }  # fmt: skip
    async with httpx.AsyncClient() as client:
        answer: dict[str, Any] = (await client.post(f"{issuer.url}/token", data=form)).raise_for_status().json()
    return answer


async def test_a_token_got_straight_from_the_issuer_is_a_first_login_too(api, issuer):
    tokens = await raw_tokens(issuer, "raw-carl")
    me = found(await api.ask("GET", "/users/me", token=tokens["access_token"]), 200)
    assert (me["email"], len(me["orgs"])) == ("raw-carl@example.com", 1)
    assert refusal(await api.ask("GET", "/users/me", token=tokens["id_token"])) == (401, "credential_invalid")
    assert refusal(await api.ask("GET", "/users/me", token=tokens["refresh_token"])) == (401, "credential_invalid")


async def test_a_session_is_refreshed_and_a_refresh_token_is_spent_once(api):
    tokens = await api.log_in("dora")
    body = {"refresh_token": tokens["refresh_token"]}
    answers = await asyncio.gather(*(api.ask("POST", "/auth/refresh", body) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409, 409]
    fresh = next(answer.json() for answer in answers if answer.status_code == 200)
    assert fresh["access_token"] != tokens["access_token"]
    found(await api.ask("GET", "/users/me", token=fresh["access_token"]), 200)
    newest = found(await api.ask("POST", "/auth/refresh", {"refresh_token": fresh["refresh_token"]}), 200)
    assert 0 < newest["expires_in_seconds"] <= 300


async def test_a_refresh_token_that_stays_can_be_used_again(api):
    tokens = await api.log_in("still-erna")
    body = {"refresh_token": tokens["refresh_token"]}
    for _ in range(2):
        assert found(await api.ask("POST", "/auth/refresh", body), 200)["refresh_token"] == tokens["refresh_token"]


async def test_an_answer_with_tokens_is_given_once(api, database):
    tokens = await api.log_in("emil")
    body, key = {"refresh_token": tokens["refresh_token"]}, new_id().hex
    first = found(await api.ask("POST", "/auth/refresh", body, key=key), 200)
    again = found(await api.ask("POST", "/auth/refresh", body, key=key), 200)
    assert again == first | {"access_token": None, "refresh_token": None, "already_shown": True}
    connection = await asyncpg.connect(database.superuser)
    stored = await connection.fetch("SELECT encode(body, 'escape') AS body FROM idempotency_keys")
    audited = await connection.fetch("SELECT details::text AS body FROM audit_log")
    await connection.close()
    for secret in (first["access_token"], first["refresh_token"], tokens["refresh_token"]):
        assert not any(secret in (row["body"] or "") for row in (*stored, *audited))


async def test_logging_out_ends_the_access_token_here_and_the_refresh_token_there(api):
    tokens = await api.log_in("frida")
    body = {"refresh_token": tokens["refresh_token"]}
    ended = found(await api.ask("POST", "/auth/logout", body, token=tokens["access_token"]), 200)
    assert ended == {"access_token_revoked": True, "refresh_token_revoked": True}
    await asyncio.sleep(1)
    assert refusal(await api.ask("GET", "/users/me", token=tokens["access_token"])) == (401, "credential_revoked")
    assert refusal(await api.ask("POST", "/auth/refresh", body)) == (401, "refresh_refused")


async def test_a_login_that_was_not_started_here_or_is_finished_twice_is_refused(api):
    started = await api.start()
    back = await log_in(started["authorization_url"], "gina")
    unknown = (422, "login_state_unknown")
    forged = {"authorization_code": back["code"], "state": secrets.token_urlsafe(32)}
    assert refusal(await api.ask("POST", "/auth/login/finish", forged)) == unknown
    body = {"authorization_code": back["code"], "state": started["state"]}
    answers = await asyncio.gather(*(api.ask("POST", "/auth/login/finish", body) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [200, 422, 422, 422, 422]
    access = next(answer.json()["access_token"] for answer in answers if answer.status_code == 200)
    found(await api.ask("GET", "/users/me", token=access), 200)


async def test_a_code_of_another_login_is_refused(api):
    mine, stolen = await api.start(), await api.start()
    code = (await log_in(stolen["authorization_url"], "hugo"))["code"]
    body = {"authorization_code": code, "state": mine["state"]}
    assert refusal(await api.ask("POST", "/auth/login/finish", body)) == (401, "login_failed")


async def test_a_redirect_elsewhere_is_refused_before_the_issuer_hears_of_it(api):
    for uri in ("https://evil.example/callback", "http://127.0.0.1@evil.example/", "http://10.0.0.1/callback"):
        assert refusal(await api.ask("POST", "/auth/login", {"redirect_uri": uri})) == (422, "redirect_refused")
    for bad in ("javascript:alert(1)", "", "http://127.0.0.1/\n", 5):
        assert refusal(await api.ask("POST", "/auth/login", {"redirect_uri": bad})) == (422, "request_invalid")


async def test_the_authorization_request_is_bound_to_the_login(api, issuer):
    first, second = await api.start(), await api.start()
    assert first["authorization_url"].startswith(issuer.url + "/auth?")
    asked = dict(part.split("=") for part in urlsplit(first["authorization_url"]).query.split("&"))
    other = dict(part.split("=") for part in urlsplit(second["authorization_url"]).query.split("&"))
    assert asked["code_challenge_method"] == "S256"
    for name in ("state", "nonce", "code_challenge"):
        assert len(asked[name]) >= 43
        assert asked[name] != other[name]


async def test_new_keys_at_the_issuer_are_found_by_themselves(api, issuer, monkeypatch):
    monkeypatch.setattr(key_cache, "FORCED_APART_SECONDS", 0.0)
    before = await api.log_in("ida")
    await issuer.rotate_keys()
    after = await api.log_in("ida")
    found(await api.ask("GET", "/users/me", token=after["access_token"]), 200)
    await asyncio.sleep(1)
    withdrawn = await api.ask("GET", "/users/me", token=before["access_token"])
    assert refusal(withdrawn) == (401, "credential_invalid")


async def test_who_is_logged_in_stays_so_while_the_issuer_is_down(api, issuer, monkeypatch):
    tokens, other = await api.log_in("judy"), await raw_tokens(issuer, "kurt")
    issuer.stop()
    try:
        monkeypatch.setattr(key_cache, "REFRESH_SECONDS", 0.0)
        monkeypatch.setattr(key_cache, "RETRY_SECONDS", 0.0)
        found(await api.ask("GET", "/users/me", token=tokens["access_token"]), 200)
        await asyncio.sleep(1)
        found(await api.ask("GET", "/users/me", token=tokens["access_token"]), 200)
        found(await api.ask("GET", "/users/me", token=other["access_token"]), 200)
        body = {"refresh_token": tokens["refresh_token"]}
        away = (503, "dependency_unavailable")
        assert refusal(await api.ask("POST", "/auth/refresh", body)) == away
        assert refusal(await api.ask("POST", "/auth/refresh", body)) == away
        started = await api.start()
        finish = {"authorization_code": "a-code", "state": started["state"]}
        assert refusal(await api.ask("POST", "/auth/login/finish", finish)) == away
        ended = found(await api.ask("POST", "/auth/logout", body, token=tokens["access_token"]), 200)
        assert ended == {"access_token_revoked": True, "refresh_token_revoked": False}
    finally:
        issuer.start()
    monkeypatch.setattr(key_cache, "FORCED_APART_SECONDS", 0.0)
    found(await api.ask("GET", "/users/me", token=(await api.log_in("judy"))["access_token"]), 200)
