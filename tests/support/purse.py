"""An organisation with money, and operators who may change it: for tests of the ledger and of what uses it."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from gpuaas.contracts.http.billing import AccountKind, PostingKind
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import Balance, Posted, Posting, between
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit.ids import OrgId, new_id
from tests.support.people import City, Person, city_of

EVERYTHING = Sight(PLATFORM)
INVARIANTS = (
    "invariant_01_balance_is_sum",
    "invariant_02_transactions_balance",
    "invariant_02_one_key_one_transaction",
    "invariant_03_floors",
    "invariant_03_reversed_once",
    "invariant_14_holds_end",
    "invariant_14_adjustments_end",
    "invariant_34_ledger_months_ahead",
)


@dataclass
class Purse:
    city: City
    owner: Person
    org_id: OrgId
    admin: Person
    second_admin: Person

    @property
    def db(self) -> Database:
        return self.city.db

    def writing(self) -> AbstractAsyncContextManager[Tx]:
        """As programs do that work for the organisation."""
        return self.db.transaction(Sight(self.org_id), "test")

    def reading(self) -> AbstractAsyncContextManager[Tx]:
        return self.db.read(EVERYTHING)

    async def another(self) -> "Purse":
        owner = await self.city.person("owner")
        return Purse(self.city, owner, OrgId(owner.personal_org), self.admin, self.second_admin)

    async def post(self, micros: int, **changed: Any) -> Posted:
        fields: dict[str, Any] = {
            "kind": PostingKind.REFUND if micros < 0 else PostingKind.CREDIT,
            "key": new_id().hex,
            "org_id": self.org_id,
            "legs": between(micros, AccountKind.REFUNDS if micros < 0 else AccountKind.CREDITS),
            "reason": "a test",
        }
        async with self.writing() as tx:
            return await ledger.post(tx, Posting(**(fields | changed)))

    async def top_up(self, micros: int) -> UUID:
        return (await self.post(micros)).transaction_id

    async def balance(self) -> Balance:
        async with self.db.read(Sight(self.org_id)) as tx:
            return await ledger.balance_at(tx, self.org_id)


async def broken(db: Database) -> list[str]:
    """What the invariants of money find."""
    async with db.read(EVERYTHING) as tx:
        return [
            f"{view}: {row['subject']} {row['problem']}"
            for view in INVARIANTS
            for row in await tx.rows(f"SELECT subject, problem FROM {view}")
        ]


@asynccontextmanager
async def purse_of(db: Database) -> AsyncIterator[Purse]:
    async with city_of(db) as city:
        owner = await city.person("owner")
        yield Purse(city, owner, OrgId(owner.personal_org), await city.admin(), await city.admin())
