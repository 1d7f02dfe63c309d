"""What the issuer does by itself."""

from typing import Any

import msgspec

from gpuaas.contracts.events.base import Envelope
from gpuaas.contracts.events.platform import UserDisabled
from gpuaas.contracts.tokens import BUILT_IN
from gpuaas.domains.issuer import handlers
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit import clock
from gpuaas.kit.ids import EventId, new_id
from gpuaas.kit.secrets import token_hash
from tests.support.issuer_site import Account, Login, Site


async def disable(site: Site, issuer: str, subject: str) -> None:
    event = UserDisabled(user_id=new_id(), issuer=issuer, subject=subject)
    envelope = Envelope(
        id=EventId(new_id()),
        name=event.NAME,
        version=1,
        occurred_at=clock.now(),
        org_id=None,
        subject_id=None,
        actor="test",
        correlation_id="test",
        traceparent="",
        payload=msgspec.Raw(msgspec.json.encode(event)),
    )
    async with site.db.transaction(Sight(PLATFORM), "test") as tx:
        await handlers.sessions_end(tx, event, envelope)


async def test_a_disabled_user_is_logged_out_everywhere(site: Site) -> None:
    person, browser, login = await site.account(), site.browser(), Login(site, scope="openid offline_access")
    tokens = (await login.exchange(await browser.log_in(login, person))).json()
    await disable(site, BUILT_IN, person.subject)
    await disable(site, BUILT_IN, person.subject)
    assert not await site.accepted(tokens["access_token"])
    assert (await site.refresh(tokens["refresh_token"])).status_code == 400
    assert (await browser.open(Login(site).url)).status_code == 200


async def test_a_subject_of_another_issuer_is_none_of_ours(site: Site, ada: Account) -> None:
    tokens = await site.log_in(ada)
    await disable(site, "https://elsewhere.example", ada.subject)
    await disable(site, "https://elsewhere.example", "not-even-an-id")
    assert await site.accepted(tokens["access_token"])


async def test_what_has_expired_is_pruned_and_what_lives_stays(site: Site, ada: Account, superuser: Any) -> None:
    gone, kept = await site.log_in(ada), await site.log_in(ada)
    tables = ("issuer_codes", "issuer_sessions", "issuer_families", "issuer_access_tokens", "issuer_device_codes")
    await site.post("/device_authorization", client_id="gpuaas-cli")
    for table in tables:
        await superuser.execute(
            f"UPDATE {table} SET expires_at = now() - interval '3 days' WHERE ctid = (SELECT min(ctid) FROM {table})"
        )
    before = {table: await superuser.fetchval(f"SELECT count(*) FROM {table}") for table in tables}
    await handlers.prune(site.parts)
    after = {table: await superuser.fetchval(f"SELECT count(*) FROM {table}") for table in tables}
    assert all(after[table] < before[table] for table in tables)
    assert (await site.refresh(kept["refresh_token"])).status_code == 200
    assert gone["access_token"] != kept["access_token"]


async def test_spent_refresh_tokens_of_a_living_session_are_kept_to_see_reuse_and_then_forgotten(
    site: Site, ada: Account, superuser: Any
) -> None:
    days = site.policy.number("issuer.refresh_token_days")
    first = await site.log_in(ada)
    second = (await site.refresh(first["refresh_token"])).json()
    third = (await site.refresh(second["refresh_token"])).json()
    spent = {tokens["refresh_token"]: token_hash(tokens["refresh_token"]) for tokens in (first, second, third)}
    for tokens, age in ((first, days + 1), (second, days - 1)):
        await superuser.execute(
            "UPDATE issuer_refresh_tokens SET used_at = used_at - $2 * interval '1 day' WHERE token_hash = $1",
            spent[tokens["refresh_token"]],
            age,
        )
    await handlers.prune(site.parts)
    kept = {row["token_hash"] for row in await superuser.fetch("SELECT token_hash FROM issuer_refresh_tokens")}
    assert kept & set(spent.values()) == {spent[second["refresh_token"]], spent[third["refresh_token"]]}
    assert (await site.refresh(first["refresh_token"])).status_code == 400, "unknown, and nothing ends"
    fourth = await site.refresh(third["refresh_token"])
    assert fourth.status_code == 200
    assert (await site.refresh(second["refresh_token"])).status_code == 400
    assert (await site.refresh(fourth.json()["refresh_token"])).status_code == 400, "its reuse was seen"
