"""What was promised and not yet taken (a code, an allowed device, a password just checked) ends with its ground."""

from typing import Any
from uuid import UUID

from gpuaas.domains.issuer import service as issuer
from gpuaas.domains.issuer.accounts import service as accounts
from gpuaas.infra.postgres.tx import Sight
from tests.domains.issuer.test_devices import answered, begin, error_of, forget_polls, poll
from tests.support.issuer_site import Account, Login, Site


async def reset(site: Site, account: Account) -> None:
    async with site.db.transaction(Sight(), "test") as tx:
        await issuer.password_reset(tx, UUID(account.subject), password_hash="unusable")


async def test_a_code_given_before_a_password_reset_gives_nothing_after_it(site: Site) -> None:
    person, login = await site.account(), Login(site)
    landed = await site.browser().log_in(login, person)
    await reset(site, person)
    assert error_of(await login.exchange(landed)) == "invalid_grant"


async def test_a_code_given_before_a_logout_gives_nothing_after_it(site: Site) -> None:
    person, browser, login = await site.account(), site.browser(), Login(site)
    landed = await browser.log_in(login, person)
    await browser.submit(await browser.open(f"{site.issuer}/logout"))
    assert error_of(await login.exchange(landed)) == "invalid_grant"


async def test_a_device_allowed_before_a_password_reset_gets_nothing_after_it(site: Site, superuser: Any) -> None:
    person, device = await site.account(), await begin(site)
    assert "connected" in (await answered(site.browser(), site, device["user_code"], person, "allow")).text
    await reset(site, person)
    await forget_polls(superuser)
    assert error_of(await poll(site, device)) == "access_denied"


async def test_a_device_outlives_the_browser_that_allowed_it(site: Site, superuser: Any) -> None:
    person, browser, device = await site.account(), site.browser(), await begin(site)
    await answered(browser, site, device["user_code"], person, "allow")
    await browser.submit(await browser.open(f"{site.issuer}/logout"))
    await forget_polls(superuser)
    assert (await poll(site, device)).status_code == 200


async def test_a_password_that_was_reset_while_it_was_checked_does_not_log_in(site: Site) -> None:
    person = await site.account()
    attempt = await accounts.login_try(
        site.db, site.passwords, site.policy, email=person.email, password=person.password
    )
    assert attempt.account is not None
    await reset(site, person)
    async with site.db.transaction(Sight(), "test") as tx:
        assert not await accounts.login_accepted(tx, attempt)
