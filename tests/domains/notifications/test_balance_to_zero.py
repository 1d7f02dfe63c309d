"""Nobody is logged in, and the balance falls to zero: the email arrives, its link leads to the payment page, and money
paid there stops the ladder."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gpuaas.domains.notifications.links.tokens import LinkSigner
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.secrets import MasterKey
from tests.support.mailbox import mailbox
from tests.support.post_office import URL, PostOffice
from tests.support.spender import UNIT, Spender, spender_of
from tests.support.till import Till, till_of

LINK = re.compile(r"https://gpu\.example/go/[A-Za-z0-9_-]+")


@pytest.fixture
async def till(db: Database, tmp_path: Path) -> AsyncIterator[Till]:
    async with till_of(db, tmp_path) as made:
        made.purse.city.parts.add(LinkSigner(MasterKey(b"m" * 32), URL))
        made.purse.city.policy.values["notifications.top_up_micros"] = 500 * UNIT
        yield made


@pytest.fixture
async def spender(till: Till) -> Spender:
    return await spender_of(till.purse)


@pytest.fixture
async def office(till: Till, spender: Spender) -> AsyncIterator[PostOffice]:
    async with mailbox() as box:
        owner = spender.purse.owner
        yield PostOffice(till.purse.city, box, owner, owner, owner, spender.purse.org_id)


async def emptied(office: PostOffice, spender: Spender, superuser: Any) -> str:
    """It spends until nothing is left, with nobody there; the link in the email that says so."""
    await spender.gets(100 * UNIT)
    await spender.look()
    await superuser.execute("UPDATE users SET last_login_at = now() - interval '1 day' WHERE id = $1", office.owner.id)
    await spender.meter(ago=200)
    await spender.look()
    assert (await spender.stands()).rung == "empty"
    await office.heard_all()
    await office.send()
    [message] = [one for one in office.box.to(office.owner.email) if one["X-GPUaaS-Kind"] == "billing.empty"]
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None
    assert html is not None
    [link] = set(LINK.findall(text.get_content()))
    assert f'href="{link}"' in html.get_content()
    assert "is stopped" in text.get_content()
    return str(link)


async def test_the_email_arrives_and_money_paid_through_its_link_stops_the_ladder(
    till: Till, office: PostOffice, spender: Spender, superuser: Any
):
    link = await emptied(office, spender, superuser)
    page = await office.look(link)
    assert page.status_code == 200
    assert "Pay 500.00 USD" in page.text
    assert await till.rows("SELECT FROM payments") == [], "looking changes nothing"

    gone = await office.press(link)
    assert gone.status_code == 303
    assert gone.headers["location"].startswith(till.provider.url)
    again = await office.press(link)
    assert again.headers["location"] == gone.headers["location"], "pressed again, it leads to the same payment"
    [payment] = await till.rows("SELECT * FROM payments")
    assert (payment["org_id"], payment["asked_by_id"]) == (office.org_id, office.owner.id)
    assert (payment["amount_micros"], payment["url"]) == (500 * UNIT, gone.headers["location"])

    await till.pay({"session_id": payment["session_id"]})
    await till.until(str(payment["id"]), "succeeded")
    assert (await spender.stands()).rung in ("good", "low")
    await office.heard_all()
    await office.send()
    kinds = [one["X-GPUaaS-Kind"] for one in office.box.to(office.owner.email)]
    assert "payments.succeeded" in kinds
    paid = await office.press(link)
    assert (paid.status_code, "is succeeded" in paid.text) == (200, True)
    assert len(await till.rows("SELECT FROM payments")) == 1


async def test_while_the_provider_is_away_the_link_says_so_and_works_later(
    till: Till, office: PostOffice, spender: Spender, superuser: Any
):
    link = await emptied(office, spender, superuser)
    before = len(await till.rows("SELECT FROM payments"))
    await till.order("down")
    away = await office.press(link)
    assert away.status_code == 503
    assert "<h1>" in away.text
    await till.order("clear")
    assert (await office.press(link)).status_code == 303
    assert len(await till.rows("SELECT FROM payments")) == before + 1


async def test_who_lost_the_billing_role_pays_nothing_by_link(
    till: Till, office: PostOffice, spender: Spender, superuser: Any
):
    link = await emptied(office, spender, superuser)
    before = len(await till.rows("SELECT FROM payments"))
    await superuser.execute("UPDATE org_members SET role = 'member' WHERE user_id = $1", office.owner.id)
    for answer in (await office.look(link), await office.press(link)):
        assert answer.status_code == 403
    assert len(await till.rows("SELECT FROM payments")) == before, "not even one that is not paid"
