"""The token endpoint says no in RFC 6749's words, with its statuses."""

import asyncio
import base64
from typing import Any

import httpx
import pytest

from tests.support.issuer_site import CALLBACK, Account, Login, Site

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
V = "v" * 43
REFUSED = [
    ({"client_id": "gpuaas-cli"}, 400, "invalid_request"),
    ({"grant_type": "authorization_code"}, 401, "invalid_client"),
    ({"grant_type": "authorization_code", "client_id": "nobody"}, 401, "invalid_client"),
    ({"grant_type": "authorization_code", "client_id": "gpuaas-cli", "client_secret": "x"}, 401, "invalid_client"),
    ({"grant_type": "password", "client_id": "gpuaas-cli"}, 400, "unsupported_grant_type"),
    ({"grant_type": "implicit", "client_id": "gpuaas-cli"}, 400, "unsupported_grant_type"),
    ({"grant_type": DEVICE, "client_id": "gpuaas-console", "device_code": "x"}, 400, "unauthorized_client"),
    ({"grant_type": "client_credentials", "client_id": "gpuaas-cli"}, 400, "unauthorized_client"),
    ({"grant_type": "authorization_code", "client_id": "gpuaas-cli"}, 400, "invalid_request"),
    ({"grant_type": "authorization_code", "client_id": "gpuaas-cli", "code": "x"}, 400, "invalid_request"),
    (
        {"grant_type": "authorization_code", "client_id": "gpuaas-cli", "code": "x", "redirect_uri": CALLBACK},
        400,
        "invalid_request",
    ),
    (
        {
            "grant_type": "authorization_code",
            "client_id": "gpuaas-cli",
            "code": "x",
            "redirect_uri": CALLBACK,
            "code_verifier": "short",
        },
        400,
        "invalid_request",
    ),
    (
        {
            "grant_type": "authorization_code",
            "client_id": "gpuaas-cli",
            "code": "x",
            "redirect_uri": CALLBACK,
            "code_verifier": V,
        },
        400,
        "invalid_grant",
    ),
    ({"grant_type": "refresh_token", "client_id": "gpuaas-cli"}, 400, "invalid_request"),
    ({"grant_type": "refresh_token", "client_id": "gpuaas-cli", "refresh_token": "x"}, 400, "invalid_grant"),
    ({"grant_type": "refresh_token", "client_id": "gpuaas-cli", "refresh_token": "x" * 9000}, 400, "invalid_grant"),
    ({"grant_type": DEVICE, "client_id": "gpuaas-cli"}, 400, "invalid_request"),
    ({"grant_type": DEVICE, "client_id": "gpuaas-cli", "device_code": "x"}, 400, "invalid_grant"),
    ({"grant_type": "client_credentials"}, 401, "invalid_client"),
    ({"grant_type": "client_credentials", "client_id": "0190c2a0-0000-7000-8000-000000000000"}, 401, "invalid_client"),
    (
        {
            "grant_type": "client_credentials",
            "client_id": "0190c2a0-0000-7000-8000-000000000000",
            "client_secret": "no",
        },
        401,
        "invalid_client",
    ),
]


def expect_refusal(answer: httpx.Response, status: int, error: str) -> None:
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert set(answer.json()) <= {"error", "error_description", "correlation_id"}
    if status == 401:
        assert answer.headers["www-authenticate"].startswith("Basic ")


@pytest.mark.parametrize(("form", "status", "error"), REFUSED, ids=str)
async def test_a_flawed_token_request_is_refused_by_the_book(
    site: Site, form: dict[str, str], status: int, error: str
) -> None:
    expect_refusal(await site.http.post(f"{site.issuer}/token", data=form), status, error)


@pytest.mark.parametrize("header", ["Bearer x", "Basic !!!", "Basic bm8tY29sb24=", "Basic"])
async def test_a_malformed_authorization_header_is_a_client_we_do_not_know(site: Site, header: str) -> None:
    answer = await site.http.post(
        f"{site.issuer}/token", data={"grant_type": "client_credentials"}, headers={"authorization": header}
    )
    expect_refusal(answer, 401, "invalid_client")


async def test_a_client_that_authenticates_twice_is_refused(site: Site) -> None:
    basic = "Basic " + base64.b64encode(b"gpuaas-cli:").decode()
    for form in ({"client_secret": "x"}, {"client_id": "gpuaas-console"}):
        answer = await site.http.post(
            f"{site.issuer}/token", data={"grant_type": "refresh_token", **form}, headers={"authorization": basic}
        )
        expect_refusal(answer, 400, "invalid_request")


@pytest.mark.parametrize("body", [b"grant_type=refresh_token&grant_type=password", b"\xff\xfe", b"a=%00"])
async def test_a_form_that_cannot_be_read_one_way_is_an_invalid_request(site: Site, body: bytes) -> None:
    answer = await site.http.post(
        f"{site.issuer}/token", content=body, headers={"content-type": "application/x-www-form-urlencoded"}
    )
    expect_refusal(answer, 400, "invalid_request")


async def test_json_in_place_of_a_form_is_an_invalid_request(site: Site) -> None:
    answer = await site.http.post(f"{site.issuer}/token", json={"grant_type": "refresh_token"})
    assert 400 <= answer.status_code < 500
    assert answer.json()["error"] == "invalid_request"


async def test_a_code_works_once_and_its_reuse_revokes_what_it_gave(site: Site, ada: Account) -> None:
    login = Login(site)
    landed = await site.browser().log_in(login, ada)
    tokens = (await login.exchange(landed)).json()
    assert await site.accepted(tokens["access_token"])
    expect_refusal(await login.exchange(landed), 400, "invalid_grant")
    assert not await site.accepted(tokens["access_token"])
    expect_refusal(await site.refresh(tokens["refresh_token"]), 400, "invalid_grant")


async def test_a_stolen_code_is_worth_nothing_without_the_verifier_and_is_spent(site: Site, ada: Account) -> None:
    login = Login(site)
    landed = await site.browser().log_in(login, ada)
    expect_refusal(await login.exchange(landed, code_verifier=V), 400, "invalid_grant")
    expect_refusal(await login.exchange(landed), 400, "invalid_grant")


async def test_the_verifier_cannot_be_left_out_or_be_the_challenge(site: Site, ada: Account) -> None:
    login = Login(site)
    landed = await site.browser().log_in(login, ada)
    expect_refusal(await login.exchange(landed, code_verifier=""), 400, "invalid_request")
    expect_refusal(await login.exchange(landed, code_verifier=login.sent["code_challenge"]), 400, "invalid_grant")


async def test_a_code_belongs_to_its_client_and_another_cannot_spend_it(site: Site, ada: Account) -> None:
    login = Login(site)
    landed = await site.browser().log_in(login, ada)
    expect_refusal(await login.exchange(landed, client_id="gpuaas-console"), 400, "invalid_grant")
    assert (await login.exchange(landed)).status_code == 200


async def test_a_code_is_bound_to_its_redirect_address(site: Site, ada: Account) -> None:
    login = Login(site)
    landed = await site.browser().log_in(login, ada)
    other = "http://127.0.0.1:1/callback"
    expect_refusal(await login.exchange(landed, redirect_uri=other), 400, "invalid_grant")


async def test_a_code_that_has_expired_is_refused(site: Site, ada: Account, superuser: Any) -> None:
    login = Login(site)
    landed = await site.browser().log_in(login, ada)
    await superuser.execute("UPDATE issuer_codes SET expires_at = now() WHERE used_at IS NULL")
    expect_refusal(await login.exchange(landed), 400, "invalid_grant")


async def test_of_twenty_exchanges_of_one_code_at_most_one_is_given_tokens(site: Site, ada: Account) -> None:
    login = Login(site)
    landed = await site.browser().log_in(login, ada)
    answers = await asyncio.gather(*(login.exchange(landed) for _ in range(20)))
    given = [answer for answer in answers if answer.status_code == 200]
    assert len(given) == 1
    assert {answer.json()["error"] for answer in answers if answer.status_code != 200} == {"invalid_grant"}
    assert not await site.accepted(given[0].json()["access_token"]), "reuse was seen, so what was given is revoked"
