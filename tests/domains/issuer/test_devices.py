"""Logging in a machine without a browser (RFC 8628)."""

import asyncio
from typing import Any

import httpx
import pytest

from gpuaas.domains.issuer import user_codes
from tests.support.issuer_site import Account, Browser, Form, Login, Site, landed

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"


async def begin(site: Site, **form: str) -> dict[str, Any]:
    answer = await site.post("/device_authorization", client_id="gpuaas-cli", **form)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def poll(site: Site, device: dict[str, Any], client_id: str = "gpuaas-cli") -> httpx.Response:
    return await site.token(DEVICE, client_id, device_code=device["device_code"])


async def answered(browser: Browser, site: Site, user_code: str, account: Account, answer: str) -> httpx.Response:
    page = await browser.open(f"{site.issuer}/device")
    if "password" in Form.on(page).fields:
        page = await browser.submit(page, email=account.email, password=account.password)
    return await browser.submit(await browser.submit(page, user_code=user_code), answer)


async def forget_polls(superuser: Any) -> None:
    await superuser.execute("UPDATE issuer_device_codes SET polled_at = NULL")


def error_of(answer: httpx.Response) -> str:
    assert answer.status_code == 400
    return str(answer.json()["error"])


async def test_a_device_is_allowed_by_a_person_and_gets_tokens(site: Site, ada: Account, superuser: Any) -> None:
    device = await begin(site)
    assert device["verification_uri"] == f"{site.issuer}/device"
    assert (device["expires_in"], device["interval"]) == (600, 5)
    assert error_of(await poll(site, device)) == "authorization_pending"
    done = await answered(site.browser(), site, device["user_code"].lower(), ada, "allow")
    assert "connected" in done.text
    await forget_polls(superuser)
    tokens = (await poll(site, device)).json()
    assert await site.accepted(tokens["access_token"])
    assert tokens["scope"] == "openid profile email offline_access"
    assert (await site.refresh(tokens["refresh_token"])).status_code == 200


async def test_a_device_that_asks_too_often_is_slowed_down_and_slowed_down_again(site: Site) -> None:
    device = await begin(site)
    assert error_of(await poll(site, device)) == "authorization_pending"
    assert error_of(await poll(site, device)) == "slow_down"
    assert error_of(await poll(site, device)) == "slow_down"
    rows = await site.rows("SELECT interval_seconds FROM issuer_device_codes ORDER BY created_at DESC LIMIT 1")
    assert rows[0]["interval_seconds"] == 15


async def test_a_device_that_was_denied_is_told_so(site: Site, ada: Account, superuser: Any) -> None:
    device = await begin(site)
    page = await answered(site.browser(), site, device["user_code"], ada, "deny")
    assert "denied" in page.text
    assert error_of(await poll(site, device)) == "access_denied"


async def test_a_device_code_expires(site: Site, ada: Account, superuser: Any) -> None:
    device = await begin(site)
    await superuser.execute("UPDATE issuer_device_codes SET expires_at = now()")
    assert error_of(await poll(site, device)) == "expired_token"
    browser = site.browser()
    await browser.log_in(Login(site), ada)
    page = await browser.submit(await browser.open(f"{site.issuer}/device"), user_code=device["user_code"])
    assert page.status_code == 400


async def test_of_many_polls_after_the_yes_one_gets_tokens_and_reuse_ends_them(
    site: Site, ada: Account, superuser: Any
) -> None:
    device = await begin(site)
    await answered(site.browser(), site, device["user_code"], ada, "allow")
    answers = await asyncio.gather(*(poll(site, device) for _ in range(10)))
    given = [answer.json() for answer in answers if answer.status_code == 200]
    assert len(given) == 1
    assert error_of(await poll(site, device)) == "invalid_grant"
    assert not await site.accepted(given[0]["access_token"])


async def test_a_device_code_is_its_clients_alone(site: Site, ada: Account) -> None:
    device = await begin(site)
    answer = await poll(site, device, "gpuaas-console")
    assert error_of(answer) == "unauthorized_client"


async def test_a_client_without_the_grant_cannot_begin(site: Site) -> None:
    answer = await site.post("/device_authorization", client_id="gpuaas-console")
    assert error_of(answer) == "unauthorized_client"
    answer = await site.post("/device_authorization", client_id="nobody")
    assert answer.status_code == 401
    answer = await site.post("/device_authorization", client_id="gpuaas-cli", scope='open"id')
    assert error_of(answer) == "invalid_scope"


async def test_the_complete_address_asks_at_once_whether_the_device_is_allowed(
    site: Site, ada: Account, superuser: Any
) -> None:
    device, browser = await begin(site), site.browser()
    page = await browser.open(device["verification_uri_complete"])
    question = await browser.submit(page, email=ada.email, password=ada.password)
    assert device["user_code"] in question.text
    assert ada.email in question.text
    assert "GPUaaS command line" in question.text
    assert "Enter the code" not in question.text
    assert error_of(await poll(site, device)) == "authorization_pending", "nobody has said yes"
    assert "connected" in (await browser.submit(question, "allow")).text
    await forget_polls(superuser)
    assert (await poll(site, device)).status_code == 200
    again = await browser.open(device["verification_uri_complete"])
    assert (again.status_code, "no such code" in again.text) == (400, True)


async def test_nobody_can_answer_without_a_login_or_with_a_foreign_form(site: Site, ada: Account) -> None:
    device, browser = await begin(site), site.browser()
    bare = await site.post("/device", user_code=device["user_code"], answer="allow")
    assert 'type="password"' in bare.text
    await browser.log_in(Login(site), ada)
    forged = await browser.http.post(
        f"{site.issuer}/device", data={"user_code": device["user_code"], "answer": "allow", "form_token": "x" * 43}
    )
    assert forged.status_code == 400
    assert error_of(await poll(site, device)) == "authorization_pending"


async def test_guessed_codes_are_refused_and_slowed_by_the_auth_lane(site: Site, ada: Account) -> None:
    browser = site.browser()
    await browser.log_in(Login(site), ada)
    page = await browser.open(f"{site.issuer}/device")
    site.policy.values["rate_limit.auth_per_minute"], before = 60, site.policy.values["rate_limit.auth_per_minute"]
    site.policy.values["rate_limit.auth_burst"], burst = 5, site.policy.values["rate_limit.auth_burst"]
    try:
        answers = [await browser.submit(page, user_code=user_codes.new()) for _ in range(8)]
    finally:
        site.policy.values |= {"rate_limit.auth_per_minute": before, "rate_limit.auth_burst": burst}
    assert {answer.status_code for answer in answers} == {400, 429}
    limited = next(answer for answer in answers if answer.status_code == 429)
    assert int(limited.headers["retry-after"]) >= 1
    assert limited.headers["content-type"].startswith("text/html")
    await asyncio.sleep(1)


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("bcdf-ghjk", "BCDFGHJK"),
        (" BCDF GHJK ", "BCDFGHJK"),
        ("bcdf–ghjk", "BCDFGHJK"),
        ("BCDFGHJ", None),
        ("BCDFGHJA", None),
        ("BCDFGHJ1", None),
        ("", None),
        ("B" * 500, None),
        ("BCDFGHJK\x00", None),
    ],
)
def test_a_code_is_read_as_people_type_it(typed: str, code: str | None) -> None:
    assert user_codes.read(typed) == code


def test_user_codes_have_no_vowels_and_differ() -> None:
    codes = {user_codes.new() for _ in range(1000)}
    assert len(codes) == 1000
    assert not set("".join(codes)) & set("AEIOUY0123456789")


async def test_a_login_on_the_device_page_keeps_the_code(site: Site, ada: Account) -> None:
    device, browser = await begin(site), site.browser()
    page = await browser.open(f"{site.issuer}/device?user_code={device['user_code']}")
    wrong = await browser.submit(page, email=ada.email, password="wrong-password")
    assert wrong.status_code == 400
    page = await browser.submit(wrong, email=ada.email, password=ada.password)
    assert Form.on(page).fields["user_code"] == device["user_code"]
    with pytest.raises(AssertionError):
        landed(page)
