"""The verbs of comparing the provider's lists with our books.

Always holds: what the provider says is applied as a notice of it would be, so a lost notice is made good and credits
once; what differs is written down, with both sides, until it does not differ any more. The provider is asked outside of
transactions, and one object that cannot be applied does not keep the others waiting."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from uuid import UUID

from gpuaas.contracts.http.payments import DifferenceKind
from gpuaas.domains.payments.amounts import micros_of
from gpuaas.domains.payments.checkouts import service as checkouts
from gpuaas.domains.payments.checkouts.models import Payment
from gpuaas.domains.payments.disputes import service as disputes
from gpuaas.domains.payments.reconciling import store
from gpuaas.domains.payments.reconciling.models import Found, Report, Sides, Statement
from gpuaas.domains.payments.settlement import service as settlement
from gpuaas.domains.payments.settlement.models import Seen, Source
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit import clock, log
from gpuaas.kit.errors import Fault, Unavailable
from gpuaas.ports.payments import Checkout, Dispute, PaymentProvider, Refunding

OVERLAP = timedelta(days=3)
"""How far back each comparison looks before the last one: a page may be paid days after it was made."""
FIRST = timedelta(days=90)
REFUNDS_SETTLE = timedelta(days=35)
DISPUTES_LAST = timedelta(days=200)
"""They end so long after they were made, and the notice of that may be lost: the lists go by when they were made."""
MOMENT = timedelta(minutes=2)
"""What is younger may be on its way to us."""
OPEN_BATCH = 200
NOT_THERE_MOST = 100
SHOWN = 20

difference_list = store.list_all
difference_count = store.open_count
statements_prune = store.prune
reports_prune = store.prune_reports
Said = Checkout | Refunding | Dispute


async def payments_reconcile(db: Database, provider: PaymentProvider) -> Report:
    """Ask the provider for its lists, apply them, and write down what differs."""
    began = clock.now()
    async with db.read(Sight(PLATFORM)) as tx:
        last = await store.last(tx)
    since = (last or began - FIRST) - OVERLAP
    work = _Comparison(db, began)
    await work.through(provider.checkouts(since))
    await work.through(provider.refunds(min(since, began - REFUNDS_SETTLE)))
    await work.through(provider.disputes(min(since, began - DISPUTES_LAST)))
    await _open_ones(db, provider, work)
    return await work.end(since)


async def sides(tx: Tx) -> list[Sides]:
    """The first equation: what the provider says it took for us, less what it gave back, is what the ledger credits."""
    return await store.sides(tx)


class _Comparison:
    """One pass over the provider's lists."""

    def __init__(self, db: Database, began: datetime) -> None:
        self._db = db
        self._began = began
        self._counts = {Checkout: 0, Refunding: 0, Dispute: 0}
        self._looked_at: list[str] = []
        self._healed: list[str] = []

    async def through(self, said: AsyncIterator[Said]) -> None:
        async for one in said:
            self._counts[type(one)] += 1
            with skipping(one.id):
                await self.one(one)

    async def one(self, said: Said) -> None:
        async with self._db.transaction(Sight(PLATFORM), "system:payments.reconcile") as tx:
            seen = await _apply(tx, said)
            healed = bool(tx.events)
            self._looked_at.append(said.id)
            statement = _statement(said)
            payment = await _payment(tx, said)
            if payment is None and seen is Seen.EARLY:
                seen = Seen.UNKNOWN  # pages were looked at before, so what it goes back of is nothing of ours
            if statement is not None and payment is not None:
                await store.keep(tx, [statement])
            found = _difference(said, seen, payment)
            if found is not None:
                await store.differs(tx, found)
        if healed:  # it is, once it is written
            self._healed.append(said.id)

    async def end(self, since: datetime) -> Report:
        async with self._db.transaction(Sight(PLATFORM), "system:payments.reconcile") as tx:
            for object_id, payment_id, currency, micros in await store.not_there(
                tx, since=since + OVERLAP, until=self._began - MOMENT, limit=NOT_THERE_MOST
            ):
                await store.differs(
                    tx,
                    Found(
                        kind=DifferenceKind.NOT_THERE,
                        object_id=object_id,
                        payment_id=payment_id,
                        currency=currency,
                        ours_micros=micros,
                        theirs_micros=0,
                        detail="it is in our books, and the provider does not list it",
                    ),
                )
            await store.settled(tx, self._looked_at, before=self._began)
            report = Report(
                began_at=self._began,
                checkouts=self._counts[Checkout],
                refunds=self._counts[Refunding],
                disputes=self._counts[Dispute],
                healed=len(self._healed),
                healed_objects=self._healed[:SHOWN],
                differences=await store.open_count(tx),
            )
            await store.report(tx, report)
        return report


async def _open_ones(db: Database, provider: PaymentProvider, work: _Comparison) -> None:
    """Those we still wait for, one by one: they may be older than the lists go back."""
    after = UUID(int=0)
    while True:
        async with db.read(Sight(PLATFORM)) as tx:
            waiting = await checkouts.payments_open(tx, older=OVERLAP, after=after, limit=OPEN_BATCH)
        for payment in waiting:
            assert payment.session_id is not None  # noqa: S101 # only those are asked for
            await work.through(_page(provider, payment.session_id))
        if len(waiting) < OPEN_BATCH:
            return
        after = waiting[-1].id


async def _page(provider: PaymentProvider, session_id: str) -> AsyncIterator[Checkout]:
    """None, if the provider does not know it: it is another account's, or of before the provider was changed."""
    said = None
    with skipping(session_id):
        said = await provider.checkout_get(session_id)
    if said is not None:
        yield said


@contextmanager
def skipping(object_id: str) -> Iterator[None]:
    """One that cannot be applied does not keep the others waiting; a provider that is away does."""
    try:
        yield
    except Unavailable:
        raise
    except Fault as fault:
        log.get_logger().error("an object of the provider is not applied", object=object_id, reason=str(fault))


async def _apply(tx: Tx, said: Said) -> Seen:
    if isinstance(said, Checkout):
        return await settlement.checkout_seen(tx, said, source=Source.RECONCILIATION)
    if isinstance(said, Refunding):
        return await settlement.refund_seen(tx, said, source=Source.RECONCILIATION)
    return await disputes.dispute_seen(tx, said, source=Source.RECONCILIATION)


def _statement(said: Said) -> Statement | None:
    """What it took for us, or gave back; None: neither."""
    micros = micros_of(said.cents)
    if isinstance(said, Checkout):
        kind, micros = "checkout", micros if said.paid else 0
    elif isinstance(said, Refunding):
        kind, micros = "refund", 0 if said.failed else -micros
    else:
        kind, micros = "dispute", -micros if said.lost else 0
    if not micros and isinstance(said, Checkout):
        return None
    return Statement(
        object_id=said.id,
        kind=kind,
        payment_id=said.payment_id if isinstance(said, Checkout) else None,
        currency=said.currency,
        amount_micros=micros,
    )


async def _payment(tx: Tx, said: Said) -> Payment | None:
    if isinstance(said, Checkout):
        return await checkouts.payment_find(tx, session_id=said.id, payment_id=said.payment_id)
    return await checkouts.payment_find(tx, intent_id=said.intent_id) if said.intent_id else None


def _difference(said: Said, seen: Seen, payment: Payment | None) -> Found | None:
    taken = micros_of(said.cents)
    if isinstance(said, Checkout) and not said.paid:
        return None
    kinds = {
        Seen.DIFFERS: (DifferenceKind.AMOUNT, "the provider took another amount or currency than was asked for"),
        Seen.UNKNOWN: (DifferenceKind.NOT_OURS, "the provider has it, and we know nothing of it"),
        Seen.EARLY: (DifferenceKind.STUCK, "money went back of what we do not know to be paid"),
    }
    if seen not in kinds:
        return None
    kind, detail = kinds[seen]
    return Found(
        kind=kind,
        object_id=said.id,
        payment_id=payment.id if payment else None,
        currency=said.currency,
        ours_micros=payment.amount_micros if payment else 0,
        theirs_micros=taken,
        detail=detail,
    )
