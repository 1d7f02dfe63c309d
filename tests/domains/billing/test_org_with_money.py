"""An organisation is not deleted with money in it, nor with debts: whose would they be?"""

from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import UUID

import pytest

from gpuaas.infra.postgres.database import Database
from gpuaas.kit.ids import OrgId
from tests.support.people import found, refusal
from tests.support.purse import Purse, purse_of


@pytest.fixture
async def purse(db: Database) -> AsyncIterator[Purse]:
    async with purse_of(db) as made:
        org = await made.city.made(made.owner, "/orgs", {"name": f"shared-{made.org_id.hex[-8:]}"})
        yield replace(made, org_id=OrgId(UUID(org["id"])))


async def test_it_stays_while_its_balance_is_not_zero(purse: Purse) -> None:
    async def delete() -> tuple[int, str]:
        answer = await purse.city.ask(purse.owner, "DELETE", f"/orgs/{purse.org_id}")
        return (200, "") if answer.status_code == 200 else refusal(answer)

    await purse.top_up(1)
    assert await delete() == (409, "org_has_money")
    await purse.post(-1)
    assert await delete() == (200, "")


async def test_without_any_account_it_goes(purse: Purse) -> None:
    found(await purse.city.ask(purse.owner, "DELETE", f"/orgs/{purse.org_id}"), 200)
