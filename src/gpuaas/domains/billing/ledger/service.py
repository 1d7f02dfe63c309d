"""The verbs of the ledger: see the package's docstring for how they are used.

Always holds: each transaction sums to zero; a key is posted once; no organisation asks for what it does not have or has
set aside, whoever asks at the same time (what it has used it owes, whatever its balance); nothing that was posted
changes."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.billing import MoneyHoldExpired
from gpuaas.contracts.http.billing import AccountKind, MoneyHoldState, PostingKind
from gpuaas.domains.billing.ledger import store
from gpuaas.domains.billing.ledger.models import (
    Balance,
    Capture,
    Charge,
    Charged,
    Entry,
    Hold,
    HoldWanted,
    Posted,
    Posting,
    Transaction,
    Wanted,
)
from gpuaas.domains.billing.ledger.states import LONGEST
from gpuaas.domains.identity.orgs import service as orgs
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Sight, Tx
from gpuaas.kit import clock
from gpuaas.kit.errors import Conflict, Detail, Missing, Refused
from gpuaas.kit.ids import MoneyHoldId, OrgId, TransactionId
from gpuaas.kit.money import DEFAULT_CURRENCY, MAX_MICROS

MAX_CHARGES = 10_000
MAX_CHARGED_ORGS = 1_000
EXPORT_BATCH = 1_000
EXPIRE_BATCH = 500
_NIL = UUID(int=0)
FIRST_YEAR, LAST_YEAR = 1970, 9998

hold_get = store.hold
hold_find = store.hold_find
held_for = store.held_for
posting_find = store.posting_find
transaction_get = store.transaction
amount_of = store.amount


async def post(tx: Tx, wanted: Posting) -> Posted:
    """Move money, once."""
    if sum(wanted.legs.values()) or len(wanted.legs) < 2 or 0 in wanted.legs.values():
        raise ValueError("legs are two or more, none is zero, and they sum to zero")
    _bounded(*wanted.legs.values())
    return await store.post(tx, wanted)


async def post_many(
    tx: Tx,
    kind: PostingKind,
    charges: Sequence[Charge],
    *,
    counter: AccountKind = AccountKind.REVENUE,
    currency: str = DEFAULT_CURRENCY,
) -> list[Charged]:
    """Many at once, with the platform's sight: answers in the order asked. What an organisation cannot pay as a whole
    is not posted for it, but for usage; the others are."""
    if not charges:
        return []
    if len(charges) > MAX_CHARGES or len({charge.org_id for charge in charges}) > MAX_CHARGED_ORGS:
        raise ValueError(f"at most {MAX_CHARGES} charges of {MAX_CHARGED_ORGS} organisations at once")
    _bounded(*(charge.amount_micros for charge in charges))
    return await store.post_many(tx, kind, charges, counter=counter, currency=currency)


async def reverse(tx: Tx, transaction_id: TransactionId, *, reason: str) -> Posted:
    """Undo all legs of a transaction. Asked again, the answer is the first reversal's."""
    was = await store.transaction(tx, transaction_id)
    if was.reverses_id is not None:
        raise Conflict(Code.LEDGER_REVERSAL_FINAL, "A reversal is not reversed.")
    return await store.reverse(tx, transaction_id, reason)


async def hold_take(tx: Tx, wanted: HoldWanted) -> Hold:
    """Set money aside until an instant. The same key answers with the hold it made, whatever became of it."""
    if not 0 < wanted.amount_micros <= MAX_MICROS or not timedelta(0) < wanted.until - clock.now() <= LONGEST:
        raise ValueError("a hold is on a positive amount, and ends later, within the longest time there may be")
    return await store.hold_take(tx, wanted)


async def hold_extend(tx: Tx, hold_id: MoneyHoldId, *, amount_micros: int, until: datetime) -> Hold:
    """Let the hold be on at least this amount in all, until at least then."""
    if not 0 < amount_micros <= MAX_MICROS or until - clock.now() > LONGEST:
        raise ValueError("a hold is on a positive amount, and ends within the longest time there may be")
    return await store.hold_extend(tx, hold_id, amount_micros, until)


async def hold_capture(tx: Tx, hold_id: MoneyHoldId, wanted: Capture) -> Posted:
    """Charge what was set aside, or a part of it."""
    return await store.hold_capture(tx, hold_id, wanted)


async def hold_void(tx: Tx, hold_id: MoneyHoldId) -> Hold:
    """Give back what is left of it. One that is over stays what it became."""
    return await store.hold_void(tx, hold_id)


async def hold_void_open(tx: Tx, hold_id: MoneyHoldId) -> Hold:
    """The same by hand: one that is over is refused, so that nobody thinks he has ended it."""
    was = await store.hold(tx, hold_id)
    voided = await store.hold_void(tx, hold_id)
    if was.state is not MoneyHoldState.OPEN or voided.state is not MoneyHoldState.VOIDED:
        raise Conflict(Code.MONEY_HOLD_OVER, f"The hold is {voided.state} already.")
    return voided


async def holds_expire(tx: Tx) -> int:
    """Say of holds whose time is over that they are; they did not count any more already."""
    ended = await store.holds_expire(tx, EXPIRE_BATCH)
    for hold in ended:
        tx.emit(
            MoneyHoldExpired(
                hold_id=hold.id, subject_id=hold.subject_id, currency=hold.currency, left_micros=hold.left_micros
            ),
            subject_id=hold.id,
            org_id=hold.org_id,
        )
    return len(ended)


async def hold_list(tx: Tx, org_id: OrgId, *, before: UUID, state: MoneyHoldState | None, limit: int) -> list[Hold]:
    return await store.holds(tx, org_id, before=before, state=state, limit=limit)


async def balance_at(tx: Tx, org_id: OrgId, *, currency: str = DEFAULT_CURRENCY, at: datetime | None = None) -> Balance:
    """What the organisation has now, or had at an instant."""
    if at is not None:
        _checked_instants(at=at)
    return await store.balance(tx, org_id, currency, at)


async def balance_before(tx: Tx, org_id: OrgId, *, currency: str, at: datetime) -> int:
    """What the organisation had just before an instant: what is posted then counts to what comes after."""
    _checked_instants(at=at)
    return await store.balance_before(tx, org_id, currency, at)


async def entry_list(tx: Tx, wanted: Wanted, *, before: UUID, limit: int) -> list[Entry]:
    """Newest first, each with the balance after it."""
    return await store.newest(tx, _checked(wanted), before=before, limit=limit)


def entry_export(
    db: Database, sight: Sight, wanted: Wanted, form: Callable[[list[Entry]], bytes], *, header: bytes
) -> AsyncIterator[bytes]:
    """Oldest first, a batch at a time; no connection is held while the reader is slow."""
    return _batches(db, sight, _checked(wanted), form, header)


async def _batches(
    db: Database, sight: Sight, wanted: Wanted, form: Callable[[list[Entry]], bytes], header: bytes
) -> AsyncIterator[bytes]:
    yield header
    after = _NIL
    while True:
        async with db.read(sight) as tx:
            found = await store.oldest(tx, wanted, after=after, limit=EXPORT_BATCH)
        if found:
            yield form(found)
        if len(found) < EXPORT_BATCH:
            return
        after = found[-1].id


async def credit_line_set(tx: Tx, org_id: OrgId, *, currency: str, credit_line_micros: int) -> Balance:
    """How far below zero an organisation may go; not less than it is below zero already."""
    await orgs.lock(tx, org_id)
    await store.floor_set(tx, org_id, currency, -credit_line_micros)
    return await store.balance(tx, org_id, currency, None)


async def reversible(tx: Tx, transaction_id: TransactionId) -> tuple[Transaction, int]:
    """A transaction of an organisation that was not yet reversed, and what the organisation got by it."""
    was = await store.transaction(tx, transaction_id)
    if was.org_id is None:
        raise Missing(Code.LEDGER_TRANSACTION_MISSING, "There is no such transaction of an organisation.")
    if was.reverses_id is not None:
        raise Conflict(Code.LEDGER_REVERSAL_FINAL, "A reversal is not reversed.")
    return was, await store.amount(tx, transaction_id, was.org_id)


def _bounded(*amounts: int) -> None:
    """One absurd amount would leave an account that all share so large that nothing more can be added to it."""
    if any(abs(amount) > MAX_MICROS for amount in amounts):
        raise ValueError(f"an amount is at most {MAX_MICROS}")


def _checked(wanted: Wanted) -> Wanted:
    given = {"from": wanted.from_at, "to": wanted.to_at}
    _checked_instants(**{name: at for name, at in given.items() if at is not None})
    if wanted.from_at is not None and wanted.to_at is not None and wanted.from_at > wanted.to_at:
        raise Refused(Code.PERIOD_REFUSED, "from is after to.", details=[Detail("from", "after to")])
    return wanted


def _checked_instants(**given: datetime) -> None:
    for name, at in given.items():
        if not FIRST_YEAR < at.year < LAST_YEAR:
            raise Refused(Code.PERIOD_REFUSED, "That instant is out of range.", details=[Detail(name, "out of range")])
