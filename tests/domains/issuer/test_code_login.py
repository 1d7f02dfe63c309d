"""Logging in through the browser, as a client with PKCE does."""

from joserfc import jwt
from joserfc.jwk import KeySet

from gpuaas.domains.issuer.claims import at_hash
from tests.support.issuer_site import CALLBACK, Account, Form, Login, Site, landed, query


async def test_a_person_logs_in_and_the_client_gets_tokens_the_api_takes(site: Site, ada: Account) -> None:
    login = Login(site)
    answer = query(await site.browser().log_in(login, ada))
    assert answer["state"] == login.sent["state"]
    assert answer["iss"] == site.issuer
    tokens = (await login.exchange(f"{CALLBACK}?code={answer['code']}")).json()
    assert tokens["token_type"] == "Bearer"
    assert tokens["expires_in"] == 900
    assert await site.accepted(tokens["access_token"])
    keys = KeySet.import_key_set((await site.http.get(f"{site.issuer}/jwks")).json())
    access = jwt.decode(tokens["access_token"], keys, algorithms=["ES256"])
    said = jwt.decode(tokens["id_token"], keys, algorithms=["ES256"]).claims
    assert access.header["typ"] == "at+jwt"
    assert (access.claims["sub"], access.claims["aud"]) == (ada.subject, "gpuaas")
    assert (said["aud"], said["nonce"], said["sub"]) == ("gpuaas-cli", login.sent["nonce"], ada.subject)
    assert said["at_hash"] == at_hash(tokens["access_token"])
    assert said["sid"] == access.claims["sid"]
    assert said["email"] == ada.email


async def test_what_a_client_learns_is_what_its_scopes_say(site: Site, ada: Account) -> None:
    keys = KeySet.import_key_set((await site.http.get(f"{site.issuer}/jwks")).json())
    tokens = await site.log_in(ada, scope="openid unheard-of")
    said = jwt.decode(tokens["id_token"], keys, algorithms=["ES256"]).claims
    assert tokens["scope"] == "openid"
    assert not {"email", "name"} & set(said)
    told = await site.http.get(f"{site.issuer}/userinfo", headers={"authorization": f"Bearer {tokens['access_token']}"})
    assert told.json() == {"sub": ada.subject}


async def test_a_browser_that_is_logged_in_is_not_asked_again(site: Site, ada: Account) -> None:
    browser = site.browser()
    await browser.log_in(Login(site), ada)
    second = Login(site)
    answer = await browser.open(second.url)
    assert (await second.exchange(landed(answer))).status_code == 200


async def test_without_a_login_prompt_none_says_so_to_the_client(site: Site) -> None:
    answer = query(landed(await site.browser().open(Login(site, prompt="none").url)))
    assert answer["error"] == "login_required"
    assert answer["iss"] == site.issuer


async def test_with_a_login_prompt_none_gives_a_code(site: Site, ada: Account) -> None:
    browser = site.browser()
    await browser.log_in(Login(site), ada)
    assert query(landed(await browser.open(Login(site, prompt="none").url)))["code"]


async def test_prompt_login_asks_although_the_browser_is_logged_in(site: Site, ada: Account) -> None:
    browser = site.browser()
    await browser.log_in(Login(site), ada)
    login = Login(site, prompt="login")
    page = await browser.open(login.url)
    assert page.status_code == 200
    answer = await browser.submit(page, email=ada.email, password=ada.password)
    assert (await login.exchange(landed(answer))).status_code == 200


async def test_a_login_older_than_max_age_is_asked_again(site: Site, ada: Account) -> None:
    browser = site.browser()
    await browser.log_in(Login(site), ada)
    assert (await browser.open(Login(site, max_age="3600").url)).status_code == 303
    await site.run("UPDATE issuer_sessions SET auth_time = now() - interval '2 hours'")
    assert (await browser.open(Login(site, max_age="3600").url)).status_code == 200
    silent = await browser.open(Login(site, max_age="3600", prompt="none").url)
    assert query(landed(silent))["error"] == "login_required"


async def test_a_hint_of_another_person_asks_for_a_login(site: Site, ada: Account) -> None:
    browser, other = site.browser(), await site.account()
    hint = (await site.log_in(other))["id_token"]
    await browser.log_in(Login(site), ada)
    assert (await browser.open(Login(site, id_token_hint=hint).url)).status_code == 200
    own = (await site.log_in(ada))["id_token"]
    assert (await browser.open(Login(site, id_token_hint=own).url)).status_code == 303


async def test_a_login_hint_is_filled_in_and_cannot_break_out_of_the_page(site: Site) -> None:
    nasty = '"><script>alert(1)</script>@example.com'
    page = await site.browser().open(Login(site, login_hint=nasty).url)
    assert "<script" not in page.text
    assert Form.on(page).fields["email"] == nasty


async def test_a_client_may_post_its_request(site: Site, ada: Account) -> None:
    browser, login = site.browser(), Login(site)
    page = await browser.http.post(f"{site.issuer}/authorize", data=login.sent)
    answer = await browser.submit(page, email=ada.email, password=ada.password)
    assert (await login.exchange(landed(answer))).status_code == 200


async def test_a_wrong_password_is_told_and_the_right_one_after_it_works(site: Site, ada: Account) -> None:
    browser, login = site.browser(), Login(site)
    page = await browser.submit(await browser.open(login.url), email=ada.email, password="not-the-password")
    assert page.status_code == 400
    assert 'role="alert"' in page.text
    assert "not-the-password" not in page.text
    assert "code=" in landed(await browser.submit(page, email=ada.email.upper(), password=ada.password))


async def test_every_login_and_every_wrong_password_is_in_the_audit_log(site: Site) -> None:
    person, browser, login = await site.account(), site.browser(), Login(site)
    page = await browser.submit(await browser.open(login.url), email=person.email, password="not-the-password")
    await browser.submit(page, email=person.email, password=person.password)
    rows = await site.rows(
        "SELECT details::text, subject_id::text FROM audit_log WHERE action = 'issuer.login' ORDER BY id DESC LIMIT 2"
    )
    assert ["wrong password" in row["details"] for row in rows] == [False, True]
    assert rows[0]["subject_id"] == person.subject
    assert not any(person.password in row["details"] for row in rows)
