"""Logins as the platform and their owners manage them."""

from typing import Any
from uuid import UUID

import httpx
import pytest

from gpuaas.domains.issuer.accounts import password_rules
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.ids import new_id
from tests.support.issuer_site import PASSWORD, Account, Form, Login, Site, landed


async def ask(site: Site, token: str, method: str, path: str, body: Any = None, key: str = "") -> httpx.Response:
    headers = {"authorization": f"Bearer {token}", "idempotency-key": key or new_id().hex}
    return await site.http.request(method, f"{site.url}/api/v1{path}", headers=headers, json=body)


@pytest.fixture(scope="module")
async def admin(site: Site) -> str:
    """An access token of a platform admin."""
    boss = await site.account("boss")
    token: str = (await site.log_in(boss))["access_token"]
    assert await site.accepted(token)
    async with site.db.transaction(Sight(PLATFORM), "test") as tx:
        await tx.run("UPDATE users SET platform_roles = '{platform-admin}' WHERE subject = $1", boss.subject)
    return token


async def opened(site: Site, admin: str) -> dict[str, Any]:
    email = f"new-{new_id().hex}@example.com"
    answer = await ask(site, admin, "POST", "/platform/issuer/accounts", {"email": email, "name": "New One"})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_login_opened_by_an_admin_chooses_its_password_at_the_first_login(site: Site, admin: str) -> None:
    account = await opened(site, admin)
    browser, login = site.browser(), Login(site)
    page = await browser.open(login.url)
    page = await browser.submit(page, email=account["email"], password=account["temporary_password"])
    assert "new_password" in Form.on(page).fields
    short = await browser.submit(page, new_password="short", again="short")
    assert short.status_code == 400
    differ = await browser.submit(short, new_password="a-longer-secret-1", again="a-longer-secret-2")
    assert "differ" in differ.text
    done = await browser.submit(differ, new_password="a-longer-secret-1", again="a-longer-secret-1")
    assert (await login.exchange(landed(done))).status_code == 200
    again = await site.browser().submit(
        await site.browser().open(Login(site).url), email=account["email"], password=account["temporary_password"]
    )
    assert again.status_code == 400
    assert (await site.log_in(Account(account["email"], "a-longer-secret-1", account["id"])))["access_token"]


async def test_a_ticket_to_choose_a_password_works_once(site: Site, admin: str) -> None:
    account = await opened(site, admin)
    browser = site.browser()
    page = await browser.open(Login(site).url)
    page = await browser.submit(page, email=account["email"], password=account["temporary_password"])
    await browser.submit(page, new_password="a-longer-secret-1", again="a-longer-secret-1")
    second = await browser.submit(page, new_password="a-longer-secret-2", again="a-longer-secret-2")
    assert second.status_code == 400
    assert "location" not in second.headers


async def test_the_temporary_password_is_shown_once(site: Site, admin: str) -> None:
    body, key = {"email": f"{new_id().hex}@example.com", "name": "Once"}, new_id().hex
    first = (await ask(site, admin, "POST", "/platform/issuer/accounts", body, key)).json()
    replay = (await ask(site, admin, "POST", "/platform/issuer/accounts", body, key)).json()
    assert first["temporary_password"]
    assert (replay["temporary_password"], replay["already_shown"], replay["id"]) == (None, True, first["id"])
    taken = await ask(site, admin, "POST", "/platform/issuer/accounts", body)
    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "issuer_account_exists")


async def test_a_reset_ends_all_sessions_and_the_old_password(site: Site, admin: str) -> None:
    person, browser, login = await site.account(), site.browser(), Login(site)
    tokens = (await login.exchange(await browser.log_in(login, person))).json()
    answer = await ask(
        site, admin, "POST", f"/platform/issuer/accounts/{person.subject}/password-reset", {"reason": "lost it"}
    )
    assert answer.json()["temporary_password"]
    assert not await site.accepted(tokens["access_token"])
    assert (await site.refresh(tokens["refresh_token"])).status_code == 400
    page = await browser.open(Login(site).url)
    assert page.status_code == 200
    assert (await browser.submit(page, email=person.email, password=person.password)).status_code == 400


async def test_resetting_nobodys_password_is_a_404(site: Site, admin: str) -> None:
    path = f"/platform/issuer/accounts/{new_id()}/password-reset"
    answer = await ask(site, admin, "POST", path, {"reason": "lost it"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "issuer_account_missing")


async def test_logins_are_listed_page_by_page_and_found_by_address(site: Site, admin: str) -> None:
    person = await site.account()
    seen, cursor = [], ""
    while True:
        page = (await ask(site, admin, "GET", "/platform/issuer/accounts?limit=2" + cursor)).json()
        seen += [item["email"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert person.email in seen
    assert len(seen) == len(set(seen))
    found = (await ask(site, admin, "GET", f"/platform/issuer/accounts?email={person.email}")).json()
    assert [UUID(item["id"]) for item in found["items"]] == [UUID(person.subject)]
    assert "password_hash" not in found["items"][0]


async def test_a_person_changes_his_password_and_only_the_session_that_asked_lives_on(site: Site) -> None:
    person = await site.account()
    here, there = await site.log_in(person), await site.log_in(person)
    body = {"current_password": person.password, "new_password": "an-entirely-new-one"}
    answer = await ask(site, here["access_token"], "POST", "/users/me/password", body)
    assert answer.json() == {"done": True}
    assert await site.accepted(here["access_token"])
    assert not await site.accepted(there["access_token"])
    assert (await site.refresh(here["refresh_token"])).status_code == 200
    assert (await site.refresh(there["refresh_token"])).status_code == 400
    assert (await site.log_in(Account(person.email, "an-entirely-new-one", person.subject)))["access_token"]


@pytest.mark.parametrize(
    ("current", "wanted", "status", "code"),
    [
        ("not-my-password", "an-entirely-new-one", 403, "password_wrong"),
        (PASSWORD, "Password12345", 422, "password_refused"),
        (PASSWORD, "short", 422, "request_invalid"),
        (PASSWORD, "x" * 201, 422, "request_invalid"),
    ],
)
async def test_a_password_change_that_is_refused_changes_nothing(
    site: Site, current: str, wanted: str, status: int, code: str
) -> None:
    person = await site.account()
    token = (await site.log_in(person))["access_token"]
    answer = await ask(site, token, "POST", "/users/me/password", {"current_password": current, "new_password": wanted})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert await site.log_in(person)


async def test_guessing_the_current_password_makes_even_the_owner_wait(site: Site) -> None:
    person = await site.account()
    token = (await site.log_in(person))["access_token"]
    body = {"current_password": "not-my-password", "new_password": "an-entirely-new-one"}
    answers = [await ask(site, token, "POST", "/users/me/password", body) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [403] * 5 + [429]


async def test_an_ordinary_person_cannot_open_reset_list_or_rotate(site: Site, ada: Account) -> None:
    token = (await site.log_in(ada))["access_token"]
    for method, path, body in (
        ("POST", "/platform/issuer/accounts", {"email": "x@example.com", "name": "X"}),
        ("POST", f"/platform/issuer/accounts/{ada.subject}/password-reset", {"reason": "because"}),
        ("GET", "/platform/issuer/accounts", None),
        ("GET", "/platform/issuer/keys", None),
        ("POST", "/platform/issuer/keys/rotate", {"reason": "because"}),
    ):
        assert (await ask(site, token, method, path, body)).status_code == 403


@pytest.mark.parametrize(
    ("password", "taken"),
    [
        ("four-quiet-otters-skate", True),
        ("ünïcödé-pässphräse", True),
        ("   spaces count   ", True),
        ("x9" * 100, False),
        ("short", False),
        ("123456789", False),
        ("1234567890", False),
        ("abcdefghijkl", False),
        ("aaaaaaaaaaaa", False),
        ("Password2024!", False),
        ("p4ssw0rd!!!!", False),
        ("Welcome12345", False),
        ("ChangeMe!!2024", False),
        ("adalovelace1815", False),
        ("ada.lovelace@example.com", False),
        ("Ada Lovelace", False),
        ("x" * 201, False),
    ],
)
def test_a_password_is_taken_or_refused(password: str, taken: bool) -> None:
    said = password_rules.problem(password, "ada.lovelace@example.com", "Ada Lovelace")
    assert (said is None) is taken


def test_a_password_typed_on_another_keyboard_is_the_same() -> None:
    assert password_rules.normal("pa\u0308ss") == password_rules.normal("p\u00e4ss")


def test_temporary_passwords_pass_the_rules_and_differ() -> None:
    made = {password_rules.temporary() for _ in range(200)}
    assert len(made) == 200
    assert all(password_rules.problem(one, "x@example.com", "X") is None for one in made)


async def test_ensuring_an_account_twice_leaves_its_password_alone(site: Site) -> None:
    first = await site.account("kept")
    second = await site.account("kept", password="another-password")
    assert first.subject == second.subject
    assert await site.log_in(first)
