"""A certified client that is not ours (npm openid-client) finds the issuer by discovery and uses all of it."""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from typing import Any

from tests.support.external_issuer import INTEROP, node
from tests.support.issuer_site import Account, Browser, Form, Robot, Site, landed

SECONDS = 60


async def log_in(browser: Browser, url: str, account: Account) -> str:
    return landed(await browser.submit(await browser.open(url), email=account.email, password=account.password))


async def allow(browser: Browser, site: Site, user_code: str) -> str:
    page = await browser.open(f"{site.issuer}/device")
    assert "user_code" in Form.on(page).fields, "the browser is still logged in"
    page = await browser.submit(await browser.submit(page, user_code=user_code), "allow")
    assert page.status_code == 200
    return "allowed"


async def conversation(client: Process, site: Site, account: Account) -> dict[str, Any]:
    """Do what the client needs a person for, until it says what it got."""
    assert client.stdout is not None
    assert client.stdin is not None
    browser = site.browser()
    while line := await client.stdout.readline():
        said: dict[str, Any] = json.loads(line)
        if "open" in said:
            answer = await log_in(browser, said["open"], account)
        elif "allow" in said:
            answer = await allow(browser, site, said["allow"])
        else:
            return said
        client.stdin.write(f"{answer}\n".encode())
    raise AssertionError("the client stopped before it was done")


async def test_a_certified_client_logs_in_refreshes_revokes_and_uses_devices_and_keys(
    site: Site, ada: Account, robot: Robot
) -> None:
    client = await asyncio.create_subprocess_exec(
        node(), INTEROP / "client.mjs", site.issuer, str(robot.id), robot.key, stdin=PIPE, stdout=PIPE
    )
    try:
        async with asyncio.timeout(SECONDS):
            got = await conversation(client, site, ada)
    finally:
        if client.returncode is None:
            client.kill()
        await client.wait()
    assert got["claims"]["sub"] == got["refreshed"] == got["device"] == ada.subject
    assert got["person"]["email"] == ada.email
    assert got["afterRevocation"] == "invalid_grant"
    assert got["robots"] == ["bearer", "bearer"]
    assert got["stranger"] == "401 basic", "a challenge, as RFC 6749 has it"
    assert got["logout"].startswith(f"{site.issuer}/logout?")
