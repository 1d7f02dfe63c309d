"""What protects a person in a browser: forms, cookies, sessions, pages, and the wait after wrong passwords."""

import asyncio
import re

import httpx
import pytest

from gpuaas.domains.issuer import cookies, forgery, pages
from gpuaas.domains.issuer.provider import Issuer
from gpuaas.infra.passwords import Passwords
from gpuaas.kit.errors import Unavailable
from gpuaas.kit.secrets import token_hash
from tests.support.issuer_site import Account, Browser, Form, Login, Site, landed, query

SESSION, FORM = "gpuaas-issuer", "gpuaas-form"


async def sent(browser: Browser, login: Login, account: Account, **headers: str) -> httpx.Response:
    """The login form as this browser has it, sent with these headers."""
    page = await browser.open(login.url)
    form = Form.on(page)
    fields = form.fields | {"email": account.email, "password": account.password}
    return await browser.http.post(f"{login.site.url}{form.action}", data=fields, headers=headers)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
    ids=str,
)
async def test_a_form_sent_from_another_site_logs_nobody_in(site: Site, ada: Account, headers: dict[str, str]) -> None:
    answer = await sent(site.browser(), Login(site), ada, **headers)
    assert answer.status_code == 400
    assert SESSION not in answer.cookies


async def test_a_form_sent_from_our_own_page_logs_in(site: Site, ada: Account) -> None:
    answer = await sent(site.browser(), Login(site), ada, **{"origin": site.url, "sec-fetch-site": "same-origin"})
    assert "code" in query(landed(answer))


async def test_a_form_without_its_token_or_with_another_browsers_logs_nobody_in(site: Site, ada: Account) -> None:
    login, victim, attacker = Login(site), site.browser(), site.browser()
    foreign = Form.on(await attacker.open(login.url)).fields["form_token"]
    page = await victim.open(login.url)
    for token in ("", foreign, "x" * 43):
        answer = await victim.submit(page, email=ada.email, password=ada.password, form_token=token)
        assert answer.status_code == 400
        assert "location" not in answer.headers
    victim.http.cookies.delete(FORM)
    answer = await victim.submit(page, email=ada.email, password=ada.password)
    assert answer.status_code == 400


async def test_a_session_cookie_planted_before_the_login_is_not_the_one_after_it(site: Site, ada: Account) -> None:
    browser, login = site.browser(), Login(site)
    browser.http.cookies.set(SESSION, "planted-by-somebody-else", domain="127.0.0.1", path="/")
    await browser.log_in(login, ada)
    values = [cookie.value for cookie in browser.http.cookies.jar if cookie.name == SESSION]
    assert "planted-by-somebody-else" not in values
    thief = site.browser()
    thief.http.cookies.set(SESSION, "planted-by-somebody-else", domain="127.0.0.1", path="/")
    assert (await thief.open(Login(site).url)).status_code == 200


async def test_a_second_login_makes_the_cookie_before_it_worthless(site: Site, ada: Account) -> None:
    browser, thief = site.browser(), site.browser()
    await browser.log_in(Login(site), ada)
    thief.http.cookies = httpx.Cookies(browser.http.cookies)
    assert (await thief.open(Login(site).url)).status_code == 303
    page = await browser.open(Login(site, prompt="login").url)
    await browser.submit(page, email=ada.email, password=ada.password)
    assert (await thief.open(Login(site).url)).status_code == 200
    assert (await browser.open(Login(site).url)).status_code == 303


async def test_another_person_at_the_same_browser_ends_the_first_ones_session(site: Site, ada: Account) -> None:
    browser, login, other = site.browser(), Login(site), await site.account()
    tokens = (await login.exchange(await browser.log_in(login, ada))).json()
    page = await browser.open(Login(site, prompt="login").url)
    await browser.submit(page, email=other.email, password=other.password)
    assert not await site.accepted(tokens["access_token"])


async def test_cookies_are_out_of_reach_and_only_their_hash_is_stored(site: Site, ada: Account) -> None:
    browser = site.browser()
    answer = await sent(browser, Login(site), ada)
    header = answer.headers["set-cookie"]
    assert "HttpOnly" in header
    assert "SameSite=Lax" in header
    value = answer.cookies[SESSION]
    rows = await site.rows("SELECT * FROM issuer_sessions")
    assert value not in str(rows)
    assert len(value) >= 43


def test_over_https_cookies_are_secure_and_bound_to_the_host() -> None:
    issuer = Issuer.at("https://gpu.example.com/")
    assert issuer.url == "https://gpu.example.com/oidc"
    name = cookies.session_name(issuer)
    assert name.startswith("__Host-")
    said = cookies.cookie(issuer, name, "v", seconds=60)
    assert "Secure" in said
    assert "Path=/;" in said
    assert "Domain" not in said


async def test_pages_load_nothing_run_nothing_and_cannot_be_framed(site: Site) -> None:
    page = await site.browser().open(Login(site).url)
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self' http://127.0.0.1:45678;" in policy
    assert "unsafe-inline" not in policy
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "same-origin"
    assert not re.search(r"""(src|href)\s*=|<script|url\(|@import|style=""", page.text)
    assert pages.STYLE_HASH in policy


async def test_the_login_page_is_usable_without_sight_or_a_mouse(site: Site) -> None:
    page = await site.browser().open(Login(site).url)
    assert '<html lang="en">' in page.text
    assert "<label>Email<input" in page.text
    inputs = {field["name"]: field for field in Form.on(page).inputs}
    assert inputs["email"]["autocomplete"] == "username"
    assert inputs["password"]["autocomplete"] == "current-password"
    assert "prefers-color-scheme: dark" in page.text
    assert ":focus-visible" in page.text


async def test_known_and_unknown_addresses_cost_the_same_and_get_the_same_page(site: Site, ada: Account) -> None:
    texts, checks = [], []
    for email in (ada.email, "nobody-at-all@example.com"):
        browser, before = site.browser(), site.passwords.checks
        page = await browser.submit(await browser.open(Login(site).url), email=email, password="a-wrong-password")
        checks.append(site.passwords.checks - before)
        texts.append((page.status_code, "Email or password is not right." in page.text))
    assert checks == [1, 1]
    assert texts == [(400, True)] * 2


@pytest.mark.parametrize("known", [True, False])
async def test_wrong_passwords_in_a_row_make_the_address_wait_known_or_not(site: Site, known: bool) -> None:
    person = await site.account() if known else Account(f"nobody-{id(site)}@example.com", "right-password", "")
    browser = site.browser()
    page = await browser.open(Login(site).url)
    answers = [await browser.submit(page, email=person.email, password=f"wrong-{n}-password") for n in range(5)]
    assert [answer.status_code for answer in answers] == [400] * 5
    await site.run("UPDATE issuer_login_attempts SET locked_until = now() + interval '1 minute' WHERE failures = 5")
    waiting = await browser.submit(page, email=person.email, password="wrong-again-password")
    assert waiting.status_code == 429
    assert 50 < int(waiting.headers["retry-after"]) <= 60
    checked = site.passwords.checks
    right = await browser.submit(page, email=person.email, password=person.password)
    assert right.status_code == 429, "not even the right password is looked at while it waits"
    assert site.passwords.checks == checked


async def test_the_wait_doubles_and_a_right_password_after_it_forgets_all(site: Site) -> None:
    person, browser = await site.account(), site.browser()
    page = await browser.open(Login(site).url)
    waits = []
    for _ in range(8):
        await browser.submit(page, email=person.email, password="a-wrong-password")
        rows = await site.rows(
            "SELECT extract(epoch FROM locked_until - last_at)::float8 AS wait FROM issuer_login_attempts "
            "ORDER BY last_at DESC LIMIT 1"
        )
        waits.append(rows[0]["wait"])
        await site.run("UPDATE issuer_login_attempts SET locked_until = now()")
    assert waits == [0, 0, 0, 0, 2, 4, 8, 16]
    assert (await browser.submit(page, email=person.email, password=person.password)).status_code == 303
    before = await site.rows("SELECT count(*) AS n FROM issuer_login_attempts WHERE failures >= 8")
    assert before[0]["n"] == 0


async def test_guesses_side_by_side_pay_one_by_one(site: Site) -> None:
    person = await site.account()
    browser = site.browser()
    page = await browser.open(Login(site).url)
    await browser.submit(page, email=person.email, password="the-first-wrong-one")
    await site.run("UPDATE issuer_login_attempts SET failures = 10 WHERE email_hash = $1", token_hash(person.email))
    checked = site.passwords.checks
    guesses = (browser.submit(page, email=person.email, password=f"wrong-{n}-password") for n in range(15))
    answers = await asyncio.gather(*guesses)
    assert sorted(answer.status_code for answer in answers) == [400] + [429] * 14
    assert site.passwords.checks - checked == 1


async def test_a_flood_of_logins_is_told_to_come_back_instead_of_filling_the_memory() -> None:
    passwords = Passwords(at_once=1, waiting=2)
    answers = await asyncio.gather(*(passwords.hash("a-fine-password") for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(answer, str) for answer in answers) == 3
    assert sum(isinstance(answer, Unavailable) for answer in answers) == 5
    passwords.close()


async def test_a_logout_without_a_hint_asks_first_and_then_ends_the_session(site: Site, ada: Account) -> None:
    browser = site.browser()
    await browser.log_in(Login(site), ada)
    question = await browser.open(f"{site.issuer}/logout")
    assert ada.email in question.text
    assert (await browser.open(Login(site).url)).status_code == 303, "nothing has happened yet"
    forged = await browser.http.post(f"{site.issuer}/logout", data={"form_token": "x" * 43})
    assert "Log out?" in forged.text
    await browser.submit(question)
    assert (await browser.open(Login(site).url)).status_code == 200


async def test_a_visit_that_changes_something_is_in_the_audit_log_and_one_that_does_not_is_not(site: Site) -> None:
    async def told() -> list[tuple[str, str, str, int]]:
        rows = await site.rows(
            "SELECT operation, details->>'happened' AS happened, subject_id::text AS subject, "
            "(SELECT count(*) FROM audit_unsealed u WHERE u.audit_id = a.id) AS queued "
            "FROM audit_log a WHERE operation IN ('oidc_authorize', 'oidc_logout') AND subject_id::text = $1 "
            "ORDER BY id",
            person.subject,
        )
        return [tuple(row.values()) for row in rows]

    person, browser, login = await site.account(), site.browser(), Login(site)
    tokens = (await login.exchange(await browser.log_in(login, person))).json()
    await browser.open(f"{site.issuer}/logout")
    assert await told() == [], "a page was shown, nothing else"
    assert (await browser.open(Login(site).url)).status_code == 303
    given = ("oidc_authorize", "code given", person.subject, 1)
    assert await told() == [given]
    for _ in range(2):
        await browser.open(f"{site.issuer}/logout?id_token_hint={tokens['id_token']}")
    assert await told() == [given, ("oidc_logout", "logged out", person.subject, 1)]


async def test_after_a_logout_the_browser_returns_only_to_a_listed_address(site: Site, ada: Account) -> None:
    for address, state, goes in (
        (f"{site.url}/", "abc", True),
        (site.url, "", True),
        ("https://evil.example/", "abc", False),
    ):
        callback = f"{site.url}/auth/callback"
        browser, login = site.browser(), Login(site, client_id="gpuaas-console", redirect_uri=callback)
        tokens = (await login.exchange(await browser.log_in(login, ada))).json()
        answer = await browser.http.get(
            f"{site.issuer}/logout",
            params={
                "id_token_hint": tokens["id_token"],
                "post_logout_redirect_uri": address,
                "state": state,
            },
        )
        assert (answer.status_code == 303) is goes
        if goes:
            assert landed(answer) == (f"{address}?state={state}" if state else address)
        assert not await site.accepted(tokens["access_token"])


def test_a_form_token_says_nothing_about_its_cookie() -> None:
    cookie = forgery.new_cookie()
    assert cookie not in forgery.form_token(cookie)
    assert forgery.genuine(cookie, forgery.form_token(cookie), {}, frozenset())
    assert not forgery.genuine("", forgery.form_token(""), {}, frozenset())
