"""Random histories of postings, holds, charges and reversals: each outcome, balance and hold is the oracle's; and when
several histories run at once, what was answered is exactly what is in the books."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.contracts.http.billing import AccountKind, PostingKind
from gpuaas.domains.billing.books import store as books
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import Capture, Charge, HoldWanted, Posting, between
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Sight
from gpuaas.kit import clock
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import MoneyHoldId, OrgId, TransactionId, new_id
from tests.support.purse import EVERYTHING, broken
from tests.support.servers import DatabaseUrls, clone

KEYS = st.integers(0, 5)
AMOUNTS = st.integers(1, 400)
WHICH = st.integers(0, 3)
STEP = st.one_of(
    st.tuples(st.just("credit"), KEYS, AMOUNTS),
    st.tuples(st.just("debit"), KEYS, AMOUNTS),
    st.tuples(st.just("use"), KEYS, AMOUNTS),
    st.tuples(st.just("hold"), KEYS, AMOUNTS),
    st.tuples(st.just("extend"), WHICH, AMOUNTS),
    st.tuples(st.just("capture"), WHICH, AMOUNTS, st.booleans(), KEYS),
    st.tuples(st.just("void"), WHICH),
    st.tuples(st.just("reverse"), WHICH),
)
HISTORY = st.lists(STEP, max_size=25)
CHECKED = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
KINDS = {"credit": PostingKind.TOP_UP, "debit": PostingKind.REFUND, "use": PostingKind.USAGE}


@dataclass
class HoldNow:
    amount: int
    captured: int = 0
    open: bool = True


@dataclass
class Oracle:
    """What a ledger is, in a page: integers, no concurrency, no database."""

    balance: int = 0
    posted: dict[tuple[str, Any], int] = field(default_factory=dict)
    holds: dict[int, HoldNow] = field(default_factory=dict)
    reversed: set[int] = field(default_factory=set)
    order: list[int] = field(default_factory=list)
    """Amounts of what was posted and can be reversed."""

    @property
    def held(self) -> int:
        return sum(hold.amount - hold.captured for hold in self.holds.values() if hold.open)

    def step(self, step: tuple[Any, ...]) -> str:
        return str(getattr(self, step[0])(*step[1:]))

    def _post(self, kind: str, key: Any, amount: int, *, floor: bool) -> str:
        if (kind, key) in self.posted:
            return "again" if self.posted[kind, key] == amount else "refused"
        if floor and amount < 0 and self.balance + amount - self.held < 0:
            return "refused"
        self.posted[kind, key] = amount
        self.balance += amount
        self.order.append(amount)
        return "done"

    def credit(self, key: int, amount: int) -> str:
        return self._post("credit", key, amount, floor=False)

    def debit(self, key: int, amount: int) -> str:
        return self._post("debit", key, -amount, floor=True)

    def use(self, key: int, amount: int) -> str:
        return self._post("use", key, -amount, floor=False)

    def hold(self, key: int, amount: int) -> str:
        if key in self.holds:
            return "done"
        if amount > self.balance - self.held:
            return "refused"
        self.holds[key] = HoldNow(amount)
        return "done"

    def _which(self, which: int) -> HoldNow | None:
        return list(self.holds.values())[which] if which < len(self.holds) else None

    def extend(self, which: int, amount: int) -> str:
        hold = self._which(which)
        if hold is None:
            return "nothing"
        if not hold.open or (amount - hold.amount > max(self.balance - self.held, 0) and amount > hold.amount):
            return "refused"
        hold.amount = max(hold.amount, amount)
        return "done"

    def capture(self, which: int, amount: int, last: bool, key: int) -> str:
        hold = self._which(which)
        if hold is None:
            return "nothing"
        if ("use", ("c", key)) in self.posted:
            return "again" if self.posted["use", ("c", key)] == -amount else "refused"
        if not hold.open or amount > hold.amount - hold.captured:
            return "refused"
        hold.captured += amount
        hold.open = not last
        return self._post("use", ("c", key), -amount, floor=False)

    def void(self, which: int) -> str:
        hold = self._which(which)
        if hold is None:
            return "nothing"
        hold.open = False
        return "done"

    def reverse(self, which: int) -> str:
        if which >= len(self.order):
            return "nothing"
        if which in self.reversed:
            return "again"
        amount = -self.order[which]
        if amount < 0 and self.balance + amount - self.held < 0:
            return "refused"
        self.reversed.add(which)
        self.balance += amount
        return "done"


@dataclass
class Book:
    """The same steps in the real ledger."""

    db: Database
    org_id: OrgId
    lane: str = ""
    holds: list[MoneyHoldId] = field(default_factory=list)
    order: list[TransactionId] = field(default_factory=list)
    moved: int = 0
    """What this one's own postings came to, as they were answered."""

    async def step(self, step: tuple[Any, ...]) -> str:
        try:
            async with self.db.transaction(Sight(self.org_id), "test") as tx:
                return str(await getattr(self, step[0])(tx, *step[1:]))
        except (Conflict, ValueError):
            return "refused"

    def _noted(self, posted: Any, amount: int, *, reversible: bool = True) -> str:
        if posted.replayed:
            return "again"
        self.moved += amount
        if reversible:
            self.order.append(posted.transaction_id)
        return "done"

    async def _post(self, tx: Any, kind: str, key: int, amount: int) -> str:
        counter = AccountKind.CLEARING if amount > 0 else AccountKind.REVENUE
        wanted = Posting(
            kind=KINDS[kind], key=self._key(key), org_id=self.org_id, legs=between(amount, counter), reason="a test"
        )
        return self._noted(await ledger.post(tx, wanted), amount)

    def _key(self, key: Any) -> str:
        return f"{self.org_id}:{self.lane}:{key}"

    async def credit(self, tx: Any, key: int, amount: int) -> str:
        return await self._post(tx, "credit", key, amount)

    async def debit(self, tx: Any, key: int, amount: int) -> str:
        return await self._post(tx, "debit", key, -amount)

    async def use(self, tx: Any, key: int, amount: int) -> str:
        """Half of them by the way of many."""
        if amount % 2:
            return await self._post(tx, "use", key, -amount)
        charge = Charge(key=self._key(key), org_id=self.org_id, amount_micros=-amount, reason="a test")
        return self._noted((await ledger.post_many(tx, PostingKind.USAGE, [charge]))[0], -amount)

    async def hold(self, tx: Any, key: int, amount: int) -> str:
        until = clock.now() + timedelta(hours=1)
        wanted = HoldWanted(key=self._key(key), org_id=self.org_id, amount_micros=amount, until=until)
        taken = await ledger.hold_take(tx, wanted)
        if taken.id not in self.holds:
            self.holds.append(taken.id)
        return "done"

    async def extend(self, tx: Any, which: int, amount: int) -> str:
        if which >= len(self.holds):
            return "nothing"
        await ledger.hold_extend(tx, self.holds[which], amount_micros=amount, until=clock.now())
        return "done"

    async def capture(self, tx: Any, which: int, amount: int, last: bool, key: int) -> str:
        if which >= len(self.holds):
            return "nothing"
        wanted = Capture(kind=PostingKind.USAGE, key=self._key(("c", key)), amount_micros=amount, last=last)
        return self._noted(await ledger.hold_capture(tx, self.holds[which], wanted), -amount)

    async def void(self, tx: Any, which: int) -> str:
        if which >= len(self.holds):
            return "nothing"
        await ledger.hold_void(tx, self.holds[which])
        return "done"

    async def reverse(self, tx: Any, which: int) -> str:
        if which >= len(self.order):
            return "nothing"
        _, amount = await ledger.reversible(tx, self.order[which])
        posted = await ledger.reverse(tx, self.order[which], reason="undone")
        return self._noted(posted, -amount, reversible=False)

    async def balance(self) -> tuple[int, int]:
        async with self.db.read(Sight(self.org_id)) as tx:
            found = await ledger.balance_at(tx, self.org_id)
        return found.balance_micros, found.held_micros


@dataclass
class Place:
    """A database of this module's own, on a loop of its own: hypothesis runs in plain functions."""

    runner: asyncio.Runner
    db: Database
    superuser: str

    async def book(self, lane: str = "") -> Book:
        org_id = OrgId(new_id())
        connection = await asyncpg.connect(self.superuser)
        await connection.execute("INSERT INTO orgs (id, name, title) VALUES ($1, $2, 'T')", org_id, f"o-{org_id.hex}")
        await connection.close()
        return Book(self.db, org_id, lane)


@pytest.fixture(scope="module")
def place(template: DatabaseUrls) -> Iterator[Place]:
    with asyncio.Runner() as runner:
        cloned = clone(template)
        urls = runner.run(cloned.__aenter__())
        db = Database(urls.app)
        runner.run(db.open())
        yield Place(runner, db, urls.superuser)
        assert runner.run(broken(db)) == []
        assert runner.run(flaws(db)) == []
        runner.run(db.close())
        runner.run(cloned.__aexit__(None, None, None))


async def flaws(db: Database) -> list[Any]:
    """But for use without a meter: here is the ledger alone."""
    async with db.inspection(EVERYTHING) as tx:
        found = (await books.proof(tx)).problems
    return [one for one in found if one.problem != "it charges for usage, but no usage names it"]


@given(history=HISTORY)
@settings(CHECKED, max_examples=120)
def test_every_history_ends_as_the_oracle_says(place: Place, history: list[tuple[Any, ...]]):
    async def run() -> None:
        book, oracle = await place.book(), Oracle()
        for step in history:
            assert (step, await book.step(step)) == (step, oracle.step(step))
            assert await book.balance() == (oracle.balance, oracle.held)

    place.runner.run(run())


@given(histories=st.lists(HISTORY, min_size=2, max_size=5))
@settings(CHECKED, max_examples=40)
def test_histories_at_once_on_one_account_are_in_the_books_as_they_were_answered(
    place: Place, histories: list[list[tuple[Any, ...]]]
):
    """The lanes share the organisation; two of them share their keys as well, so that some meet."""

    async def lane(book: Book, history: list[tuple[Any, ...]]) -> int:
        for step in history:
            await book.step(step)
        return book.moved

    async def run() -> None:
        first = await place.book()
        lanes = [Book(place.db, first.org_id, str(number // 2)) for number in range(len(histories))]
        moved = await asyncio.gather(*(lane(book, history) for book, history in zip(lanes, histories, strict=True)))
        assert (await first.balance())[0] == sum(moved)

    place.runner.run(run())
