"""The three equations: each is made of rows of its own, and names those that differ."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from gpuaas.contracts.http.billing import AccountKind, PostingKind
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import Posting, between
from gpuaas.domains.billing.meters import service as meters
from gpuaas.domains.billing.meters.models import MeterWanted
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.ids import OrgId, ProjectId, new_id
from tests.support.people import City, Person, city_of
from tests.support.servers import DatabaseUrls
from tests.support.slot_yard import Tenant, Yard, yard_of

HOURLY = 3_500_000
LIVED = 3_600
BROKEN = 600


@pytest.fixture(scope="module")
async def yard(db: Database, database: DatabaseUrls) -> AsyncIterator[Yard]:
    async with yard_of(db, database.superuser) as made:
        await made.sql.execute("SET app.org_id = '*'")
        yield made


@pytest.fixture(scope="module")
async def city(db: Database) -> AsyncIterator[City]:
    async with city_of(db) as made:
        yield made


class Life:
    """An allocation that was proven an hour ago, was out of order for ten minutes, and was released just now."""

    def __init__(self, yard: Yard, owner: Person, who: Tenant) -> None:
        self.yard, self.owner, self.who = yard, owner, who
        self.id = new_id()

    async def lived(self, *, told: bool = True, metered: int = LIVED) -> "Life":
        sku = await self.yard.sku()
        price_id = await self.yard.sql.fetchval("SELECT id FROM sku_prices WHERE sku_id = $1", sku.id)
        ended = await self.yard.sql.fetchval("SELECT clock_timestamp()")
        began = ended - timedelta(seconds=LIVED)
        broke = began + timedelta(seconds=BROKEN)
        await self.put(
            "allocations",
            id=self.id,
            org_id=self.who.org_id,
            project_id=self.who.project_id,
            name=self.id.hex[:20],
            sku_id=sku.id,
            gpu_count=1,
            node_count=1,
            isolation="user-revoke",
            price_id=price_id,
            requested_by="ada",
            ssh_keys=[],
            state="released",
            lease_seconds=7200,
            active_at=began,
            release_requested_at=ended,
            ended_at=ended,
            correlation_id="test",
        )
        if told:
            await self.put(
                "allocation_timeline",
                id=new_id(),
                org_id=self.who.org_id,
                allocation_id=self.id,
                phase="degraded",
                detail="XID 79",
                actor="system",
                correlation_id="test",
                at=broke + timedelta(seconds=20),
            )
        wanted = MeterWanted(
            subject_id=self.id,
            org_id=self.who.org_id,
            project_id=self.who.project_id,
            sku_id=sku.id,
            gpus=1,
            price_id=price_id,
            micros_per_gpu_hour=HOURLY,
            currency="USD",
            asked_by="ada",
        )
        async with self.yard.db.transaction(self.who.sight, "test") as tx:
            await meters.meter_open(tx, wanted, at=began)
            await meters.meter_pause(tx, self.id, at=broke, reason="XID 79")
            await meters.meter_resume(tx, self.id, at=broke + timedelta(seconds=BROKEN))
            await meters.meter_close(tx, self.id, at=began + timedelta(seconds=metered), reason="release")
            await meters.meter_settle(tx, self.id)
        return self

    async def put(self, table: str, **row: Any) -> None:
        names, places = ", ".join(row), ", ".join(f"${n}" for n in range(1, len(row) + 1))
        await self.yard.sql.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", *row.values())


@pytest.fixture
async def life(city: City, yard: Yard) -> Life:
    owner = await city.person()
    org_id = await city.org(owner)
    project = await city.made(owner, f"/orgs/{org_id}/projects", {"name": "p"})
    return Life(yard, owner, Tenant(OrgId(UUID(org_id)), ProjectId(UUID(project["id"]))))


async def proof(city: City, life: Life) -> tuple[bool, dict[str, Any]]:
    found = await city.get(life.owner, f"/orgs/{life.who.org_id}/proof")
    return found["holds"], {one["name"]: one for one in found["equations"]}


async def test_what_was_used_and_held_agrees(city: City, life: Life):
    await life.lived()
    holds, equations = await proof(city, life)
    usable = LIVED - BROKEN
    used, held = equations["debits_are_usage"], equations["usage_is_occupancy"]
    assert (used["left"], used["right"], used["difference"]) == (usable * HOURLY // 3600, usable * HOURLY // 3600, 0)
    assert (held["left"], held["right"], held["unit"]) == (usable, usable, "seconds")
    assert holds


async def test_a_time_that_nothing_explains_is_named(city: City, life: Life):
    await life.lived(told=False)
    holds, equations = await proof(city, life)
    held = equations["usage_is_occupancy"]
    assert (held["difference"], holds) == (-BROKEN, False)
    assert held["first"] == [
        {"subject": f"allocation {life.id}", "problem": "metered for 3000 seconds, held and usable for 3600"}
    ]


async def test_a_meter_that_stopped_early_is_named(city: City, life: Life):
    await life.lived(metered=3_000)
    _, equations = await proof(city, life)
    held = equations["usage_is_occupancy"]
    assert (held["left"], held["right"], held["holds"]) == (2_400, 3_000, False)


async def test_a_meter_without_an_allocation_is_named(city: City, life: Life, superuser):
    await life.lived()
    await superuser.execute("UPDATE allocations SET active_at = NULL WHERE id = $1", life.id)
    _, equations = await proof(city, life)
    assert [row["subject"] for row in equations["usage_is_occupancy"]["first"]] == [f"allocation {life.id}"]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE usage SET seconds = seconds + 60 WHERE meter_id = $1",
        "UPDATE usage SET micros = micros + 60 WHERE meter_id = $1",
        "UPDATE sku_prices SET micros_per_gpu_hour = 7000000 WHERE id = (SELECT price_id FROM meters WHERE id = $1)",
    ],
)
async def test_use_that_was_charged_otherwise_is_named(city: City, life: Life, superuser, change):
    await life.lived()
    meter_id = await superuser.fetchval("SELECT id FROM meters WHERE subject_id = $1", life.id)
    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")
        await superuser.execute(change, meter_id)
    holds, equations = await proof(city, life)
    used = equations["debits_are_usage"]
    assert not holds
    assert [row["subject"] for row in used["first"]] == [f"meter {meter_id}"]


async def test_a_charge_that_is_not_in_the_ledger_is_a_difference(city: City, life: Life, superuser):
    await life.lived()
    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")
        await superuser.execute("DELETE FROM ledger_entries WHERE org_id = $1", life.who.org_id)
    _, equations = await proof(city, life)
    assert equations["debits_are_usage"]["difference"] == -((LIVED - BROKEN) * HOURLY // 3600)


async def test_a_top_up_that_nobody_paid_is_named_to_operators_and_to_the_organisation(city: City, life: Life):
    async with city.db.transaction(life.who.sight, "test") as tx:
        posted = await ledger.post(
            tx,
            Posting(
                kind=PostingKind.TOP_UP,
                key=new_id().hex,
                org_id=life.who.org_id,
                legs=between(5_000_000, AccountKind.CLEARING),
            ),
        )
    _, own = await proof(city, life)
    everybody = await city.get(await city.admin(), "/ops/books/verify")
    all_of_it = next(one for one in everybody["equations"] if one["name"] == "payments_are_credits")
    for found in (own["payments_are_credits"], all_of_it):
        assert (found["left"], found["right"], found["difference"]) == (0, 5_000_000, -5_000_000)
        assert found["first"][0]["subject"] == f"transaction {posted.transaction_id}"


async def test_where_nothing_was_paid_the_first_equation_says_so(city: City, life: Life):
    _, own = await proof(city, life)
    assert (own["payments_are_credits"]["left"], own["payments_are_credits"]["holds"]) == (0, True)
