"""An organisation that spends: a project of its own, something to buy, meters that run; and how it stands."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from gpuaas.contracts.http.billing import AccountKind, PostingKind
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import Posting, between
from gpuaas.domains.billing.meters import service as meters
from gpuaas.domains.billing.meters.models import MeterWanted
from gpuaas.domains.billing.standing import service as standing
from gpuaas.domains.billing.standing.models import Facts, Standing
from gpuaas.kit.ids import OrgId, ProjectId, SkuId, new_id
from tests.every.fleet_world import sku_body
from tests.support.purse import EVERYTHING, Purse

HOURLY = 3_600_000_000
"""A whole unit of the currency each second, so that prices are read off."""
UNIT = 1_000_000


@dataclass
class Spender:
    purse: Purse
    project_id: ProjectId
    sku_id: SkuId
    price_id: UUID

    async def meter(self, *, ago: float = 0, at: datetime | None = None, project_id: UUID | None = None) -> UUID:
        """Something runs since so many seconds, or an instant, for a unit each second. Its subject."""
        wanted = MeterWanted(
            subject_id=new_id(),
            org_id=self.purse.org_id,
            project_id=ProjectId(project_id or self.project_id),
            sku_id=self.sku_id,
            gpus=1,
            price_id=self.price_id,
            micros_per_gpu_hour=HOURLY,
            currency="USD",
            asked_by="ada",
        )
        async with self.purse.writing() as tx:
            began = at or await tx.value("SELECT clock_timestamp()") - timedelta(seconds=ago)
            return (await meters.meter_open(tx, wanted, at=began)).subject_id

    async def used(self, seconds: int) -> None:
        """Something ran for exactly so long, until now."""
        async with self.purse.reading() as tx:
            now = await tx.value("SELECT clock_timestamp()")
        subject_id = await self.meter(at=now - timedelta(seconds=seconds))
        async with self.purse.writing() as tx:
            await meters.meter_close(tx, subject_id, at=now, reason="release")

    async def close(self, subject_id: UUID) -> None:
        async with self.purse.writing() as tx:
            await meters.meter_close(tx, subject_id, at=await tx.value("SELECT clock_timestamp()"), reason="release")

    async def owes(self, micros: int) -> None:
        """It used so much, whatever it has."""
        legs = between(-micros, AccountKind.REVENUE)
        await self.purse.post(-micros, kind=PostingKind.USAGE, legs=legs)

    async def gets(self, micros: int) -> None:
        """A top-up, as payments do it: posted, and looked at in the same transaction."""
        async with self.purse.writing() as tx:
            await ledger.post(tx, top_up(self.purse.org_id, micros))
            await standing.refresh(tx, self.purse.city.policy, self.purse.org_id)

    async def refresh(self) -> None:
        async with self.purse.writing() as tx:
            await standing.refresh(tx, self.purse.city.policy, self.purse.org_id)

    async def look(self) -> int:
        """The timer's pass, over everybody."""
        return await standing.follow(self.purse.db, self.purse.city.policy)

    async def stands(self) -> Standing:
        async with self.purse.db.read(EVERYTHING) as tx:
            return await standing.of(tx, self.purse.org_id)

    async def facts(self) -> Facts:
        async with self.purse.db.read(EVERYTHING) as tx:
            [found] = await standing.standings(tx, self.purse.org_id)
        return found

    async def told(self, name: str, subject_id: UUID | None = None) -> list[dict[str, Any]]:
        """What was told of it, oldest first."""
        async with self.purse.reading() as tx:
            rows = await tx.rows(
                "SELECT payload FROM outbox WHERE name = $1 AND org_id = $2 AND ($3::uuid IS NULL OR subject_id = $3) "
                "ORDER BY id",
                name,
                self.purse.org_id,
                subject_id,
            )
        return [msgspec.json.decode(row["payload"]) for row in rows]


def top_up(org_id: OrgId, micros: int) -> Posting:
    legs = between(micros, AccountKind.CLEARING)
    return Posting(kind=PostingKind.TOP_UP, key=new_id().hex, org_id=org_id, legs=legs, reason="a test")


async def spender_of(purse: Purse) -> Spender:
    """A new one, without money."""
    own = await purse.another()
    project = await own.city.made(own.owner, f"/orgs/{own.org_id}/projects", {"name": f"p-{new_id().hex[-12:]}"})
    sku = await own.city.made(
        own.admin,
        "/skus",
        sku_body(gpu_model=f"X-{new_id().hex[-8:]}", currency="USD", micros_per_gpu_hour=HOURLY),
    )
    return Spender(own, ProjectId(UUID(project["id"])), SkuId(UUID(sku["id"])), UUID(sku["price"]["id"]))
