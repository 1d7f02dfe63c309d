"""Refresh tokens: each works once, and one that is used twice ends everything that followed from its login."""

import asyncio
from typing import Any

import httpx
import pytest

from gpuaas.domains.issuer.grants.models import RefreshToken
from gpuaas.domains.issuer.grants.service import GRACE_SECONDS, lost_race
from gpuaas.kit.ids import new_id
from tests.support.issuer_site import Account, Login, Site


def expect_ended(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")


async def age_rotations(superuser: Any) -> None:
    """As if the last rotation were longer ago than a race could last."""
    await superuser.execute(
        "UPDATE issuer_refresh_tokens SET used_at = used_at - $1 * interval '1 second' WHERE used_at IS NOT NULL",
        GRACE_SECONDS + 1,
    )


async def test_a_refresh_gives_new_tokens_and_the_old_access_token_lives_on(site: Site, ada: Account) -> None:
    first = await site.log_in(ada)
    second = (await site.refresh(first["refresh_token"])).json()
    assert second["refresh_token"] != first["refresh_token"]
    assert await site.accepted(first["access_token"])
    assert await site.accepted(second["access_token"])


async def test_a_chain_of_refreshes_works_link_by_link(site: Site, ada: Account) -> None:
    tokens = await site.log_in(ada)
    for _ in range(5):
        tokens = (await site.refresh(tokens["refresh_token"])).json()
    assert await site.accepted(tokens["access_token"])


async def test_an_old_refresh_token_used_again_ends_the_whole_family(site: Site, ada: Account, superuser: Any) -> None:
    first = await site.log_in(ada)
    second = (await site.refresh(first["refresh_token"])).json()
    await age_rotations(superuser)
    expect_ended(await site.refresh(first["refresh_token"]))
    expect_ended(await site.refresh(second["refresh_token"]))
    assert not await site.accepted(first["access_token"])
    assert not await site.accepted(second["access_token"])


async def test_a_theft_is_seen_at_once_when_the_thief_has_gone_on(site: Site, ada: Account) -> None:
    """Within the grace, but the successor was used: two parties hold the chain."""
    first = await site.log_in(ada)
    second = (await site.refresh(first["refresh_token"])).json()
    third = (await site.refresh(second["refresh_token"])).json()
    expect_ended(await site.refresh(first["refresh_token"]))
    expect_ended(await site.refresh(third["refresh_token"]))
    assert not await site.accepted(third["access_token"])


async def test_of_twenty_refreshes_at_once_one_wins_and_the_session_lives(site: Site, ada: Account) -> None:
    first = await site.log_in(ada)
    answers = await asyncio.gather(*(site.refresh(first["refresh_token"]) for _ in range(20)))
    won = [answer.json() for answer in answers if answer.status_code == 200]
    assert len(won) == 1
    for answer in answers:
        if answer.status_code != 200:
            expect_ended(answer)
    assert await site.accepted(won[0]["access_token"])
    assert (await site.refresh(won[0]["refresh_token"])).status_code == 200


async def test_a_revocation_beside_refreshes_leaves_no_token_alive(site: Site, ada: Account) -> None:
    tokens = await site.log_in(ada)
    race = [site.refresh(tokens["refresh_token"]) for _ in range(5)]
    race.append(site.post("/revoke", client_id="gpuaas-cli", token=tokens["refresh_token"]))
    answers = await asyncio.gather(*race)
    assert answers[-1].status_code == 200
    for answer in answers[:-1]:
        if answer.status_code == 200:
            assert not await site.accepted(answer.json()["access_token"])
            expect_ended(await site.refresh(answer.json()["refresh_token"]))
    assert not await site.accepted(tokens["access_token"])


@pytest.mark.parametrize(
    ("just_used", "successor_used", "race"),
    [
        (True, False, True),
        (True, True, False),
        (False, False, False),
        (False, True, False),
    ],
)
def test_only_a_fresh_rotation_nobody_built_on_is_a_lost_race(
    just_used: bool, successor_used: bool, race: bool
) -> None:
    spent = RefreshToken(
        family_id=new_id(), client_id="x", scopes=[], just_used=just_used, successor_used=successor_used
    )
    assert lost_race(spent) is race


async def test_a_refresh_token_is_its_clients_alone(site: Site, ada: Account) -> None:
    tokens = await site.log_in(ada)
    expect_ended(await site.token("refresh_token", "gpuaas-console", refresh_token=tokens["refresh_token"]))
    assert (await site.refresh(tokens["refresh_token"])).status_code == 200


async def test_a_refresh_may_ask_for_less_and_not_for_more(site: Site, ada: Account) -> None:
    tokens = await site.log_in(ada)
    more = await site.refresh(tokens["refresh_token"], scope="openid offline_access")
    assert (more.status_code, more.json()["error"]) == (400, "invalid_scope")
    less = await site.refresh(tokens["refresh_token"], scope="openid")
    assert less.json()["scope"] == "openid"
    assert less.json()["id_token"]
    least = await site.refresh(less.json()["refresh_token"], scope="email")
    assert set(least.json()) == {"access_token", "expires_in", "token_type", "scope", "refresh_token"}
    whole = await site.refresh(least.json()["refresh_token"])
    assert whole.json()["scope"] == "openid profile email"


async def test_a_session_that_was_not_used_for_long_has_ended(site: Site, ada: Account, superuser: Any) -> None:
    tokens = await site.log_in(ada)
    await superuser.execute("UPDATE issuer_families SET expires_at = now() - interval '1 second'")
    expect_ended(await site.refresh(tokens["refresh_token"]))


async def test_a_revoked_refresh_token_takes_its_access_tokens_along(site: Site, ada: Account) -> None:
    tokens = await site.log_in(ada)
    answer = await site.post("/revoke", client_id="gpuaas-cli", token=tokens["refresh_token"])
    assert answer.status_code == 200
    expect_ended(await site.refresh(tokens["refresh_token"]))
    assert not await site.accepted(tokens["access_token"])


async def test_a_revoked_access_token_goes_alone(site: Site, ada: Account) -> None:
    tokens = await site.log_in(ada)
    answer = await site.post(
        "/revoke", client_id="gpuaas-cli", token=tokens["access_token"], token_type_hint="access_token"
    )
    assert answer.status_code == 200
    assert not await site.accepted(tokens["access_token"])
    told = await site.http.get(f"{site.issuer}/userinfo", headers={"authorization": f"Bearer {tokens['access_token']}"})
    assert told.status_code == 401
    assert (await site.refresh(tokens["refresh_token"])).status_code == 200


async def test_only_the_client_a_token_was_given_to_may_revoke_it(site: Site, ada: Account) -> None:
    tokens = await site.log_in(ada)
    for token in (tokens["refresh_token"], tokens["access_token"]):
        answer = await site.post("/revoke", client_id="gpuaas-console", token=token)
        assert (answer.status_code, answer.json()["error"]) == (400, "unauthorized_client")
    assert await site.accepted(tokens["access_token"])


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"client_id": "gpuaas-cli", "token": "never-given"}, 200),
        ({"client_id": "gpuaas-cli", "token": "x" * 9000}, 200),
        ({"client_id": "gpuaas-cli", "token": "never-given", "token_type_hint": "nonsense"}, 200),
        ({"client_id": "gpuaas-cli"}, 400),
        ({"token": "never-given"}, 401),
        ({"client_id": "nobody", "token": "never-given"}, 401),
    ],
    ids=str,
)
async def test_revoking_what_does_not_exist_is_done_already(site: Site, form: dict[str, str], status: int) -> None:
    assert (await site.http.post(f"{site.issuer}/revoke", data=form)).status_code == status


async def test_a_logout_ends_the_browsers_clients_but_not_one_allowed_to_work_offline(site: Site, ada: Account) -> None:
    browser, here, offline = site.browser(), Login(site), Login(site, scope="openid offline_access")
    tokens = (await here.exchange(await browser.log_in(here, ada))).json()
    kept = (await offline.exchange(await browser.log_in(offline, ada))).json()
    page = await browser.open(f"{site.issuer}/logout?id_token_hint={tokens['id_token']}")
    assert "logged out" in page.text
    assert not await site.accepted(tokens["access_token"])
    expect_ended(await site.refresh(tokens["refresh_token"]))
    assert await site.accepted(kept["access_token"])
    assert (await site.refresh(kept["refresh_token"])).status_code == 200
    assert (await browser.open(Login(site).url)).status_code == 200, "the browser has to log in again"
