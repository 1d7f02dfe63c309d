"""Topping up as a newcomer does it: `up` without any provider's key, the command line, the demo's page, the balance."""

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.processes.up.conftest import Up, end
from tests.support.terminal import Person, Terminal

pytestmark = pytest.mark.slow
SECONDS = 60


class Till:
    """The demo's tenant owner at his terminal, and the provider's door."""

    def __init__(self, terminal: Terminal, up: Up) -> None:
        self.terminal = terminal
        self.up = up

    async def balance(self) -> int:
        found = (await self.terminal.run("billing", "balance", "--output", "json")).json
        return int(found["balance_micros"])

    async def top_up(self, amount: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self.terminal.run("billing", "top-up", amount, "--output", "json")).json
        return found

    async def press(self, url: str, do: str) -> httpx.Response:
        """On the page, as a browser does."""
        async with httpx.AsyncClient() as browser:
            found = re.search(r'name="form_token" value="([^"]+)"', (await browser.get(url)).text)
            assert found is not None
            return await browser.post(url, data={"form_token": found[1], "do": do})

    async def order(self, do: str, **said: Any) -> dict[str, Any]:
        demo = self.up.ready()["demo_payments"]
        async with httpx.AsyncClient() as http:
            key = {"authorization": f"Bearer {demo['control_key']}"}
            answer = await http.post(f"{demo['url']}/control", json={"do": do, **said}, headers=key)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def state(self, payment: dict[str, Any], *states: str) -> str:
        """Once it is one of these."""
        async with asyncio.timeout(SECONDS):
            while True:
                ran = await self.terminal.run("billing", "payments", "get", payment["id"], "--output", "json")
                if ran.json["state"] in states:
                    return str(ran.json["state"])
                await asyncio.sleep(0.3)

    async def sessions(self, payment: dict[str, Any]) -> list[dict[str, Any]]:
        """What the provider has of it."""
        key = json.loads((self.up.data / "secrets.json").read_text())["stripe_secret_key"]
        url = f"{self.up.ready()['demo_payments']['url']}/v1/checkout/sessions"
        async with httpx.AsyncClient(headers={"authorization": f"Bearer {key}"}) as http:
            listed = (await http.get(url, params={"limit": 100})).json()["data"]
        return [one for one in listed if one["client_reference_id"] == payment["id"]]

    async def told(self) -> None:
        """Once the provider has nothing more to tell."""
        async with asyncio.timeout(SECONDS):
            while (await self.order("status"))["untold"]:  # noqa: ASYNC110 - another process knows
                await asyncio.sleep(0.2)


@pytest.fixture(scope="module")
async def till(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Till]:
    place: Path = tmp_path_factory.mktemp("till")
    up = Up(place)
    try:
        ready = up.start("--fleet", "0")
        (owner,) = [one for one in ready["logins"] if one["role"] == "tenant_owner"]
        terminal = Terminal(place)
        logged_in = await terminal.log_in(Person(owner["email"], owner["password"]), "--url", ready["url"])
        assert logged_in.code == 0, logged_in.said
        await terminal.good("use", "demo")
        yield Till(terminal, up)
    finally:
        end(up)


async def test_what_is_paid_on_the_page_is_on_the_balance_once_however_often_it_is_told(till: Till) -> None:
    assert "a demo: no money moves" in till.up.said()
    before = await till.balance()
    await till.order("webhooks", copies=3)
    payment = await till.top_up("50")
    assert payment["url"].startswith(till.up.ready()["demo_payments"]["url"])

    answer = await till.press(payment["url"], "pay")

    assert answer.status_code == 303
    assert answer.headers["location"].startswith(till.up.ready()["url"])
    await till.state(payment, "succeeded")
    await till.told()
    await till.order("clear")
    assert await till.balance() == before + 50_000_000


async def test_what_was_paid_before_the_provider_was_killed_arrives_after_it(till: Till) -> None:
    before = await till.balance()
    await till.order("webhooks", paused=True)
    payment = await till.top_up("12.34")
    await till.press(payment["url"], "pay")
    killed = till.up.ready()["programs"]["demo-payments"]

    os.kill(killed, signal.SIGKILL)

    await till.state(payment, "succeeded")
    assert await till.balance() == before + 12_340_000


async def test_declined_and_cancelled_cost_nothing_and_the_page_can_be_paid_later(till: Till) -> None:
    before = await till.balance()
    payment = await till.top_up("20")
    assert (await till.press(payment["url"], "decline")).status_code == 303
    assert (await till.press(payment["url"], "cancel")).status_code == 303
    await till.told()
    assert await till.balance() == before
    await till.press(payment["url"], "pay")
    await till.state(payment, "succeeded")
    assert await till.balance() == before + 20_000_000


async def test_a_forged_notice_of_a_payment_is_refused(till: Till) -> None:
    before = await till.balance()
    payment = await till.top_up("30")
    about = {
        "id": payment["session_id"],
        "object": "checkout.session",
        "client_reference_id": payment["id"],
        "amount_total": 3000,
        "currency": "usd",
        "payment_status": "paid",
        "status": "complete",
        "payment_intent": "pi_forged",
    }
    for how in ("wrong_secret", "unsigned", "altered", "old"):
        assert (await till.order("forge", how=how, about=about))["done"] == {"status": 400}
    await asyncio.sleep(1)
    assert await till.balance() == before


async def test_the_portal_lists_what_was_paid(till: Till) -> None:
    payment = await till.top_up("33.33")
    await till.press(payment["url"], "pay")
    await till.state(payment, "succeeded")
    found = (await till.terminal.run("billing", "portal", "--output", "json")).json
    async with httpx.AsyncClient() as browser:
        page = await browser.get(found["url"])
    assert page.status_code == 200
    assert "33.33 USD" in page.text
    assert "no money moves" in page.text


async def test_a_provider_that_is_down_is_told_and_asked_again_without_a_second_page(till: Till) -> None:
    await till.order("down", path="/v1/checkout")
    refused = await till.terminal.run("billing", "top-up", "5", "--output", "json")
    assert refused.code != 0
    assert "does not answer" in refused.err
    await till.order("clear")
    assert (await till.top_up("5"))["state"] == "open"


async def test_an_answer_lost_after_success_is_one_page_and_one_payment(till: Till) -> None:
    before = await till.balance()
    await till.order("lost", path="/v1/checkout/sessions", times=1)
    payment = await till.top_up("7.77")
    asked = await till.sessions(payment)
    assert [one["id"] for one in asked] == [payment["session_id"]]
    await till.press(payment["url"], "pay")
    await till.state(payment, "succeeded")
    assert await till.balance() == before + 7_770_000


async def test_a_bank_transfer_counts_when_it_arrives_and_not_before(till: Till) -> None:
    before = await till.balance()
    payment = await till.top_up("40")
    await till.order("pay", session=payment["session_id"], how="bank", seconds=3600)
    await till.told()
    assert await till.balance() == before
    await till.order("later", seconds=3700)
    await till.state(payment, "succeeded")
    assert await till.balance() == before + 40_000_000
