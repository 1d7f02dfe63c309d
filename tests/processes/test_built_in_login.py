"""Logging in through the API at the built-in issuer: the same operations as with any other (ID-1)."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from gpuaas.domains.issuer.service import account_ensure
from gpuaas.infra.postgres.tx import Sight
from gpuaas.kit.ids import new_id
from tests.support.issuer_site import Browser, landed
from tests.support.live import LiveApi, live_api
from tests.support.people import found, refusal

__all__ = ["live_api"]
CALLBACK = "http://127.0.0.1:8931/callback"
PASSWORD = "four-quiet-otters-skate"


async def ask(api: LiveApi, path: str, body: Any, token: str = "") -> Any:
    headers = {"idempotency-key": new_id().hex} | ({"authorization": f"Bearer {token}"} if token else {})
    return await api.client.post("/api/v1" + path, json=body, headers=headers)


async def me(api: LiveApi, token: str) -> Any:
    return await api.client.get("/api/v1/users/me", headers={"authorization": f"Bearer {token}"})


@pytest.fixture(scope="module")
async def email(db) -> str:
    address = f"ada-{new_id().hex}@example.com"
    async with db.transaction(Sight(), "test") as tx:
        await account_ensure(tx, email=address, password=PASSWORD, name="Ada")
    return address


async def test_a_person_logs_in_refreshes_and_logs_out(live_api, email):
    started = found(await ask(live_api, "/auth/login", {"redirect_uri": CALLBACK}), 200)
    browser = Browser(cast(Any, SimpleNamespace(issuer=live_api.settings.issuer)))
    page = await browser.open(started["authorization_url"])
    landing = landed(await browser.submit(page, email=email, password=PASSWORD))
    await browser.http.aclose()
    back = dict(parse_qsl(urlsplit(landing).query))
    assert back["state"] == started["state"]
    finish = {"authorization_code": back["code"], "state": back["state"]}
    tokens = found(await ask(live_api, "/auth/login/finish", finish), 200)
    seen = found(await me(live_api, tokens["access_token"]), 200)
    assert (seen["email"], seen["email_verified"], seen["name"]) == (email, True, "Ada")
    fresh = found(await ask(live_api, "/auth/refresh", {"refresh_token": tokens["refresh_token"]}), 200)
    end = {"refresh_token": fresh["refresh_token"]}
    ended = found(await ask(live_api, "/auth/logout", end, fresh["access_token"]), 200)
    assert ended == {"access_token_revoked": True, "refresh_token_revoked": True}
    await asyncio.sleep(1)
    assert refusal(await me(live_api, fresh["access_token"])) == (401, "credential_revoked")
    assert refusal(await ask(live_api, "/auth/refresh", end)) == (401, "refresh_refused")


async def test_the_issuer_counts_the_address_of_who_asks_not_ours(live_api, superuser):
    await superuser.execute("DELETE FROM rate_marks")
    elsewhere = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with httpx.AsyncClient(base_url=live_api.url, transport=elsewhere) as client:
        headers = {"idempotency-key": new_id().hex}
        body = {"refresh_token": "gpuaas_rt_unknown"}
        assert refusal(await client.post("/api/v1/auth/refresh", json=body, headers=headers)) == (
            401,
            "refresh_refused",
        )
    marks = await superuser.fetch("SELECT DISTINCT subject FROM rate_marks WHERE lane = 'auth'")
    assert [row["subject"] for row in marks] == ["127.0.0.2"]
