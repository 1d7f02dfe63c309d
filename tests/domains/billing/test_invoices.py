"""Statements say what the ledger says, to the unit; invoices are made once for each month, numbered without a gap,
never changed, and made again byte for byte."""

import asyncio
import csv
import io
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from gpuaas.contracts.http.billing import AccountKind, PostingKind
from gpuaas.domains.billing.invoices import handlers, service, store
from gpuaas.domains.billing.invoices.models import Form, Seller
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import Posting, between
from gpuaas.domains.billing.meters import service as meters
from gpuaas.domains.billing.meters.models import MeterWanted
from gpuaas.infra.objects.store import open_objects
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.ids import OrgId, ProjectId, new_id
from gpuaas.ports.objects import Objects
from tests.support.past import move_back
from tests.support.people import City, Person, city_of, refusal
from tests.support.servers import DatabaseUrls
from tests.support.slot_yard import Tenant, Yard, yard_of

HOURLY = 3_500_000  # of a GPU, as the yard sells it
SELLER = Seller("Ünïcode GPUs\n研究 Street 1")


@pytest.fixture(scope="module")
async def yard(db: Database, database: DatabaseUrls) -> AsyncIterator[Yard]:
    async with yard_of(db, database.superuser) as made:
        await made.sql.execute("SET app.org_id = '*'")
        yield made


@pytest.fixture(scope="module")
async def city(db: Database) -> AsyncIterator[City]:
    with tempfile.TemporaryDirectory() as kept:
        async with city_of(db, SELLER, open_objects(Path(kept).as_uri())) as made:
            yield made


class Customer:
    """An organisation, its owner, and what it buys."""

    def __init__(self, city: City, yard: Yard, owner: Person, who: Tenant) -> None:
        self.city, self.yard, self.owner, self.who = city, yard, owner, who

    async def post(self, kind: PostingKind, micros: int, counter: AccountKind, reason: str) -> None:
        async with self.yard.db.transaction(self.who.sight, "test") as tx:
            await ledger.post(
                tx,
                Posting(
                    kind=kind, key=new_id().hex, org_id=self.who.org_id, legs=between(micros, counter), reason=reason
                ),
            )

    async def use(self, *, seconds: int, gpus: int = 1, lost: int = 0, late: bool = False, **changed: Any) -> UUID:
        """GPUs for so many seconds, some of them out of order; late: that became known after they were charged."""
        sku = await self.yard.sku()
        ended = await self.yard.sql.fetchval("SELECT clock_timestamp()")
        began = ended - timedelta(seconds=seconds)
        wanted = MeterWanted(
            **{
                "subject_id": new_id(),
                "org_id": self.who.org_id,
                "project_id": self.who.project_id,
                "sku_id": sku.id,
                "gpus": gpus,
                "price_id": await self.yard.sql.fetchval("SELECT id FROM sku_prices WHERE sku_id = $1", sku.id),
                "micros_per_gpu_hour": HOURLY,
                "currency": "USD",
                "asked_by": "ada",
            }
            | changed
        )
        async with self.yard.db.transaction(self.who.sight, "test") as tx:
            await meters.meter_open(tx, wanted, at=began)
            await meters.meter_close(tx, wanted.subject_id, at=ended, reason="release")
            if late:
                await meters.meter_settle(tx, wanted.subject_id)
        async with self.yard.db.transaction(self.who.sight, "test") as tx:
            if lost:
                await meters.meter_pause(tx, wanted.subject_id, at=began + timedelta(seconds=10), reason="XID 79")
                await meters.meter_resume(tx, wanted.subject_id, at=began + timedelta(seconds=10 + lost))
            await meters.meter_settle(tx, wanted.subject_id)
        return wanted.subject_id

    async def statement(self, **query: str) -> dict[str, Any]:
        found = await self.city.get(self.owner, f"/orgs/{self.who.org_id}/statement", **query)
        assert isinstance(found, dict)
        return found


@pytest.fixture
async def customer(city: City, yard: Yard) -> Customer:
    owner = await city.person()
    org_id = await city.org(owner)
    project = await city.made(
        owner, f"/orgs/{org_id}/projects", {"name": "p", "title": "=1+1 研究", "cost_centre": "@R&D"}
    )
    return Customer(city, yard, owner, Tenant(OrgId(UUID(org_id)), ProjectId(UUID(project["id"]))))


async def a_busy_month(customer: Customer) -> UUID:
    """All that can change a balance. The allocation of which something went back."""
    await customer.post(PostingKind.TOP_UP, 100_000_000, AccountKind.CLEARING, "card")
    await customer.post(PostingKind.CREDIT, 5_000_000, AccountKind.CREDITS, "welcome")
    await customer.use(seconds=7_201, gpus=2)
    broken = await customer.use(seconds=3_600, lost=1_200, late=True)
    await customer.post(PostingKind.REFUND, -2_000_000, AccountKind.REFUNDS, "asked for")
    await customer.post(PostingKind.ADJUSTMENT, -1_000_000, AccountKind.ADJUSTMENTS, "=cmd()")
    return broken


def sums_up(statement: dict[str, Any]) -> bool:
    return bool(statement["opening_micros"] + sum(statement["sums"].values()) == statement["closing_micros"])


async def test_a_statement_says_what_the_ledger_says(customer: Customer):
    broken = await a_busy_month(customer)
    said = await customer.statement()
    balance = await customer.city.get(customer.owner, f"/orgs/{customer.who.org_id}/balance")
    used = 7_201 * 2 * HOURLY // 3_600 + HOURLY
    assert said["sums"] == {
        "paid_in_micros": 100_000_000,
        "used_micros": -used,
        "used_back_micros": 1_200 * HOURLY // 3_600 + 1,  # price(2,400 s) is rounded down once
        "given_micros": 5_000_000,
        "refunded_micros": -2_000_000,
        "corrected_micros": -1_000_000,
    }
    assert sums_up(said)
    assert (said["opening_micros"], said["closing_micros"]) == (0, balance["balance_micros"])
    assert sum(line["micros"] for line in said["usage"]) == used
    assert sum(line["gpu_seconds"] for line in said["usage"]) == 7_201 * 2 + 3_600
    assert {(line["cost_centre"], line["micros_per_gpu_hour"]) for line in said["usage"]} == {("@R&D", HOURLY)}
    back = next(entry for entry in said["entries"] if entry["kind"] == "usage_credit")
    assert (back["subject_id"], back["reason"]) == (
        str(broken),
        "usable for 2400 seconds, not for 3600: it was out of order meanwhile (XID 79)",
    )


async def test_a_statement_explains_what_was_not_charged(customer: Customer):
    broken = await customer.use(seconds=3_600, lost=1_200)
    [time] = (await customer.statement())["unusable"]
    assert (time["allocation_id"], time["reason"], time["seconds"]) == (str(broken), "XID 79", 1_200)
    assert time["micros"] == 1_200 * HOURLY // 3_600


async def test_statements_that_follow_each_other_share_their_balance(customer: Customer):
    await a_busy_month(customer)
    middle = datetime.now(UTC)
    await asyncio.sleep(0.01)
    await customer.use(seconds=60)
    first = await customer.statement(to=middle.isoformat())
    second = await customer.statement(**{"from": middle.isoformat()})
    assert first["closing_micros"] == second["opening_micros"] != 0
    assert sums_up(first)
    assert sums_up(second)
    assert [line["gpu_seconds"] for line in second["usage"]] == [60]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"from": "2026-02-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, "period_refused"),
        ({"from": "1971-01-01T00:00:00Z"}, "period_refused"),
        ({"to": "9999-01-01T00:00:00Z"}, "period_refused"),
        ({"from": "2020-01-01T00:00:00Z"}, "period_refused"),
        ({"from": "2026-01-01T00:00:00"}, "request_invalid"),
        ({"currency": "dollars"}, "request_invalid"),
    ],
)
async def test_a_time_that_makes_no_sense_is_refused(customer: Customer, query, code):
    answer = await customer.city.ask(customer.owner, "GET", f"/orgs/{customer.who.org_id}/statement", **query)
    assert refusal(answer) == (422, code)


async def test_a_statement_as_csv_calculates_nothing_and_sums_to_the_balance(customer: Customer):
    await a_busy_month(customer)
    path = f"/orgs/{customer.who.org_id}/statement-export/csv"
    answer = await customer.city.ask(customer.owner, "GET", path)
    lines = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    texts = ("project", "cost_centre", "sku", "about", "reason")
    assert [cell for line in lines for name in texts if (cell := line[name])[:1] in set("=+-@")] == []
    changes = [
        line for line in lines if line["line"] in {"use", "top_up", "credit", "usage_credit", "refund", "adjustment"}
    ]
    closing = next(line for line in lines if line["line"] == "closing balance")
    assert round(sum(float(line["amount"]) for line in changes), 6) == float(closing["amount"])
    assert "'=cmd()" in {line["reason"] for line in lines}


async def test_a_statement_as_pdf_has_letters_of_all_the_world_and_boxes_for_others(customer: Customer):
    await a_busy_month(customer)
    path = f"/orgs/{customer.who.org_id}/statement-export/pdf"
    answer = await customer.city.ask(customer.owner, "GET", path)
    assert answer.headers["content-type"] == "application/pdf"
    assert answer.content.startswith(b"%PDF-")
    assert answer.content.rstrip().endswith(b"%%EOF")


@pytest.fixture(scope="module")
async def issued(city: City, yard: Yard, superuser: Any) -> list[Customer]:
    """Three organisations whose money moved last month, and whose invoices were made by workers that ran at once."""
    made = []
    for _ in range(3):
        owner = await city.person()
        org_id = await city.org(owner)
        project = await city.made(owner, f"/orgs/{org_id}/projects", {"name": "p", "title": "P"})
        made.append(Customer(city, yard, owner, Tenant(OrgId(UUID(org_id)), ProjectId(UUID(project["id"])))))
    for one in made:
        await a_busy_month(one)
        await move_back(superuser, one.who.org_id, timedelta(days=datetime.now(UTC).day + 3))
        await one.post(PostingKind.TOP_UP, 7_000_000, AccountKind.CLEARING, "of this month")
    await asyncio.gather(*(service.invoices_issue(city.db, SELLER) for _ in range(4)))
    await handlers.invoices_issue(city.parts)
    return made


async def invoice_of(one: Customer) -> dict[str, Any]:
    listed = await one.city.get(one.owner, f"/orgs/{one.who.org_id}/invoices")
    [found] = listed["items"]
    assert isinstance(found, dict)
    return found


async def test_each_organisation_has_one_invoice_for_the_month_whoever_made_it(issued, superuser):
    found = [await invoice_of(one) for one in issued]
    last = (datetime.now(UTC).replace(day=1) - timedelta(days=1)).replace(day=1)
    assert {one["month"] for one in found} == {f"{last:%Y-%m-%d}"}
    serials = sorted(int(one["number"].split("-")[1]) for one in found)
    assert serials == [1, 2, 3]
    for view in ("invariant_39_invoices_are_the_ledger", "invariant_39_invoices_have_no_gaps"):
        assert await superuser.fetch(f"SELECT * FROM {view}") == []
    verified = await issued[0].city.get(await issued[0].city.admin(), "/ops/books/verify")
    assert verified["flaws"] == []


async def test_an_invoice_is_of_its_month_alone(issued):
    one = issued[0]
    found = await invoice_of(one)
    detail = await one.city.get(one.owner, f"/orgs/{one.who.org_id}/invoices/{found['id']}")
    assert sums_up(detail["statement"])
    assert detail["seller"] == SELLER.text
    assert detail["statement"]["sums"]["paid_in_micros"] == 100_000_000
    assert found["used_micros"] == -sum(detail["statement"]["sums"][f"{n}_micros"] for n in ("used", "used_back"))
    following = await one.statement()
    assert following["opening_micros"] == found["closing_micros"]
    assert following["sums"]["paid_in_micros"] == 7_000_000


async def test_its_files_are_kept_and_made_again_byte_for_byte(issued):
    one = issued[0]
    found = await invoice_of(one)
    objects = one.city.parts.get(Objects)
    for form in Form:
        path = f"/orgs/{one.who.org_id}/invoices/{found['id']}/{form}"
        first = (await one.city.ask(one.owner, "GET", path)).content
        name = f"invoices/{found['id']}.{form}"
        assert await objects.get(name) == first
        await objects.delete([name])
        assert (await one.city.ask(one.owner, "GET", path)).content == first
        await objects.put(name, b"something else")
        assert (await one.city.ask(one.owner, "GET", path)).content == first
        await objects.put(name, first)


async def test_what_was_issued_does_not_change_with_what_it_is_about(issued):
    one = issued[1]
    found = await invoice_of(one)
    path = f"/orgs/{one.who.org_id}/invoices/{found['id']}"
    before = await one.city.get(one.owner, path)
    for path_of in (f"/projects/{one.who.project_id}", f"/orgs/{one.who.org_id}"):
        assert (await one.city.ask(one.owner, "PATCH", path_of, {"title": "Another"})).status_code == 200
    assert await one.city.get(one.owner, path) == before


async def test_nobody_sees_the_invoice_of_another(issued):
    found = await invoice_of(issued[0])
    other = issued[1]
    for tail in ("", "/pdf", "/csv"):
        path = f"/orgs/{other.who.org_id}/invoices/{found['id']}{tail}"
        assert refusal(await other.city.ask(other.owner, "GET", path)) == (404, "invoice_missing")


@pytest.mark.parametrize("table", ["invoices", "invoice_files"])
@pytest.mark.parametrize("trick", ["UPDATE {} SET org_id = org_id", "DELETE FROM {}", "TRUNCATE {} CASCADE"])
async def test_what_was_issued_stays(issued, database, table, trick):
    for role in (database.app, database.superuser):
        connection = await asyncpg.connect(role)
        await connection.execute("SET app.org_id = '*'")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(trick.format(table))
        await connection.close()


async def test_books_that_do_not_agree_keep_nobody_else_waiting_for_an_invoice(issued, city, yard, superuser):
    made = []
    for _ in range(2):
        owner = await city.person()
        org_id = await city.org(owner)
        project = await city.made(owner, f"/orgs/{org_id}/projects", {"name": "p", "title": "P"})
        made.append(Customer(city, yard, owner, Tenant(OrgId(UUID(org_id)), ProjectId(UUID(project["id"])))))
    for one in made:
        await a_busy_month(one)
        await move_back(superuser, one.who.org_id, timedelta(days=datetime.now(UTC).day + 3))
    async with city.db.read(Sight(PLATFORM)) as tx:
        first = (await store.due(tx, limit=1))[0].org_id
    alter = (
        "UPDATE usage SET micros = micros + $2 "
        "WHERE id = (SELECT id FROM usage WHERE org_id = $1 AND micros > 0 ORDER BY id LIMIT 1)"
    )
    for by, issued_now in ((1, 1), (-1, 1)):
        async with superuser.transaction():
            await superuser.execute("SET LOCAL session_replication_role = replica")
            await superuser.execute(alter, first, by)
        assert await service.invoices_issue(city.db, SELLER) == issued_now
    assert [len([await invoice_of(one)]) for one in made] == [1, 1]


async def test_an_invoice_that_fails_gives_its_number_back(issued, superuser):
    one = issued[2]
    async with one.city.db.read(Sight(PLATFORM)) as tx:
        assert await store.due(tx, limit=10) == []
    await move_back(superuser, one.who.org_id, timedelta(days=31))
    # The month that had an invoice says something else now: that is told. The one before it gets the next number.
    assert await superuser.fetch("SELECT * FROM invariant_39_invoices_are_the_ledger") != []
    with pytest.raises(asyncpg.CheckViolationError):
        async with one.city.db.transaction(Sight(PLATFORM), "test") as tx:
            await tx.run(
                "INSERT INTO invoices SELECT uuidv7(), org_id, currency, (month - interval '5 months')::date, year, 4, "
                "opening_micros + 1, paid_in_micros, used_micros, used_back_micros, given_micros, refunded_micros, "
                "corrected_micros, closing_micros, document, issued_at FROM invoices LIMIT 1"
            )
    assert await service.invoices_issue(one.city.db, SELLER) >= 1
    assert await superuser.fetch("SELECT * FROM invariant_39_invoices_have_no_gaps") == []
    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")
        await superuser.execute("UPDATE invoices SET serial = serial + 10 WHERE serial = 2")
    assert len(await superuser.fetch("SELECT * FROM invariant_39_invoices_have_no_gaps")) >= 2
