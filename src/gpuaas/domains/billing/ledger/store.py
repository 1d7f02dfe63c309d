"""SQL of the ledger. What writes is a call of one of the database's functions (0012): no other way is granted.

Ids of transactions sort an account's entries, so a page, an instant and the last entry are ranges of ids."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

import asyncpg

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.billing import AccountKind, MoneyHoldState, PostingKind
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
from gpuaas.infra.postgres.tx import Tx, conflicts, decode, decode_all
from gpuaas.kit import clock, log
from gpuaas.kit.errors import Missing
from gpuaas.kit.ids import MoneyHoldId, OrgId, TransactionId, floor_id, new_id

_REFUSED = {
    "ledger_floor": Code.BALANCE_TOO_LOW,
    "ledger_key_reused": Code.POSTING_KEY_REUSED,
    "ledger_hold_over": Code.MONEY_HOLD_OVER,
}
_NEWEST = UUID(int=(1 << 128) - 1)
_OLDEST = UUID(int=0)

POST = "SELECT * FROM ledger_post($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
REVERSE = "SELECT * FROM ledger_reverse($1, $2, $3, $4)"
POST_MANY = "SELECT * FROM ledger_post_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
HOLD_TAKE = "SELECT * FROM ledger_hold_take($1, $2, $3, $4, $5, $6, $7, $8)"
HOLD_EXTEND = "SELECT * FROM ledger_hold_extend($1, $2, $3)"
HOLD_CAPTURE = "SELECT * FROM ledger_hold_capture($1, $2, $3, $4, $5, $6, $7, $8, $9)"
HOLD_VOID = "SELECT * FROM ledger_hold_void($1)"
HOLDS_EXPIRE = "SELECT * FROM ledger_holds_expire($1)"
HOLD = "SELECT * FROM ledger_holds WHERE id = $1"
HOLD_OF_KEY = "SELECT * FROM ledger_holds WHERE key = $1"
HELD_FOR = """
SELECT subject_id, sum(amount_micros - captured_micros)::bigint AS micros FROM ledger_holds
WHERE subject_id = ANY($1) AND state = 'open' AND due_at > clock_timestamp() GROUP BY subject_id
"""
HOLDS = """
SELECT * FROM ledger_holds WHERE org_id = $1 AND id < $2 AND ($3::text IS NULL OR state = $3) ORDER BY id DESC LIMIT $4
"""
FLOOR_SET = "SELECT * FROM ledger_floor_set($1, $2, $3)"
BALANCE = """
SELECT a.floor_micros, coalesce((ledger_head(a.id)).balance_micros, 0) AS balance_micros,
       ledger_held(a.id) AS held_micros
FROM ledger_accounts a WHERE a.org_id = $1 AND a.kind = 'tenant' AND a.currency = $2
"""
BALANCE_BEFORE = """
SELECT a.floor_micros, coalesce((ledger_head_before(a.id, $3)).balance_micros, 0) AS balance_micros, 0 AS held_micros
FROM ledger_accounts a WHERE a.org_id = $1 AND a.kind = 'tenant' AND a.currency = $2
"""
_ENTRIES = """
SELECT t.id, e.number, t.at, t.kind, e.amount_micros, e.balance_micros, t.currency, t.subject_id, t.reason,
       t.reverses_id, t.actor
FROM ledger_entries e JOIN ledger_transactions t ON t.id = e.transaction_id
WHERE e.account_id = (SELECT a.id FROM ledger_accounts a WHERE a.org_id = $1 AND a.kind = 'tenant' AND a.currency = $2)
  AND e.transaction_id >= $3 AND e.transaction_id < $4
  AND ($5::text IS NULL OR t.kind = $5) AND ($6::uuid IS NULL OR t.subject_id = $6)
"""
NEWEST = _ENTRIES + "ORDER BY e.transaction_id DESC LIMIT $7"
OLDEST = _ENTRIES + "AND e.transaction_id > $8 ORDER BY e.transaction_id LIMIT $7"
POSTED = "SELECT transaction_id FROM ledger_keys WHERE kind = $1 AND key = $2"
TRANSACTION = "SELECT * FROM ledger_transactions WHERE id = $1"
AMOUNT = "SELECT amount_micros FROM ledger_entries WHERE transaction_id = $1 AND org_id = $2"


@contextmanager
def _said(tx: Tx) -> Iterator[None]:
    """What the database refuses, in the catalogue's words. Whoever writes has the organisation's turn, for which others
    wait: not for the disk as well."""
    tx.let_go_early()
    try:
        with conflicts(_REFUSED):
            yield
    except asyncpg.CheckViolationError as error:  # nothing a customer could do: the caller asked for what cannot be
        raise ValueError(f"{error.constraint_name}: {error.message}: {error.detail}") from error
    except asyncpg.NoDataFoundError as error:
        raise Missing(Code.MONEY_HOLD_MISSING, "There is no such hold on money here.") from error


async def post(tx: Tx, wanted: Posting) -> Posted:
    legs = dict(sorted(wanted.legs.items(), key=lambda leg: leg[0] is not AccountKind.TENANT))  # its own comes first
    with _said(tx):
        row = await tx.row(
            POST,
            wanted.kind,
            wanted.key,
            wanted.org_id,
            wanted.currency,
            list(legs),
            list(legs.values()),
            wanted.subject_id,
            wanted.reason,
            wanted.reverses_id,
            tx.actor_name,
            log.correlation_id.get(),
        )
    assert row is not None  # noqa: S101 # the function posts or raises
    return decode(Posted, row)


async def reverse(tx: Tx, transaction_id: TransactionId, reason: str) -> Posted:
    with _said(tx):
        row = await tx.row(REVERSE, transaction_id, reason, tx.actor_name, log.correlation_id.get())
    assert row is not None  # noqa: S101 # the function posts or raises
    return decode(Posted, row)


async def post_many(
    tx: Tx, kind: PostingKind, charges: Sequence[Charge], *, counter: AccountKind, currency: str
) -> list[Charged]:
    with _said(tx):
        rows = await tx.rows(
            POST_MANY,
            kind,
            currency,
            counter,
            [charge.org_id for charge in charges],
            [charge.key for charge in charges],
            [charge.amount_micros for charge in charges],
            [charge.subject_id for charge in charges],
            [charge.reason for charge in charges],
            tx.actor_name,
            log.correlation_id.get(),
        )
    return decode_all(Charged, rows)


async def hold_take(tx: Tx, wanted: HoldWanted) -> Hold:
    with _said(tx):
        row = await tx.row(
            HOLD_TAKE,
            new_id(),
            wanted.key,
            wanted.org_id,
            wanted.currency,
            wanted.amount_micros,
            wanted.subject_id,
            wanted.reason,
            wanted.until,
        )
    assert row is not None  # noqa: S101 # the function holds or raises
    return decode(Hold, row)


async def hold_extend(tx: Tx, hold_id: MoneyHoldId, amount_micros: int, until: datetime) -> Hold:
    with _said(tx):
        row = await tx.row(HOLD_EXTEND, hold_id, amount_micros, until)
    assert row is not None  # noqa: S101 # the function extends or raises
    return decode(Hold, row)


async def hold_capture(tx: Tx, hold_id: MoneyHoldId, wanted: Capture) -> Posted:
    with _said(tx):
        row = await tx.row(
            HOLD_CAPTURE,
            hold_id,
            wanted.kind,
            wanted.key,
            wanted.amount_micros,
            wanted.counter,
            wanted.last,
            wanted.reason,
            tx.actor_name,
            log.correlation_id.get(),
        )
    assert row is not None  # noqa: S101 # the function posts or raises
    return decode(Posted, row)


async def hold_void(tx: Tx, hold_id: MoneyHoldId) -> Hold:
    with _said(tx):
        row = await tx.row(HOLD_VOID, hold_id)
    assert row is not None  # noqa: S101 # the function answers or raises
    return decode(Hold, row)


async def holds_expire(tx: Tx, limit: int) -> list[Hold]:
    return decode_all(Hold, await tx.rows(HOLDS_EXPIRE, limit))


async def hold(tx: Tx, hold_id: MoneyHoldId) -> Hold:
    row = await tx.row(HOLD, hold_id)
    if row is None:
        raise Missing(Code.MONEY_HOLD_MISSING, "There is no such hold on money here.")
    return decode(Hold, row)


async def hold_find(tx: Tx, key: str) -> Hold | None:
    """The hold that was taken under a key, whatever became of it."""
    row = await tx.row(HOLD_OF_KEY, key)
    return None if row is None else decode(Hold, row)


async def held_for(tx: Tx, subjects: Sequence[UUID]) -> dict[UUID, int]:
    """What is set aside for each of these; those without are not in the answer."""
    return {row["subject_id"]: row["micros"] for row in await tx.rows(HELD_FOR, list(subjects))}


async def holds(tx: Tx, org_id: OrgId, *, before: UUID, state: MoneyHoldState | None, limit: int) -> list[Hold]:
    return decode_all(Hold, await tx.rows(HOLDS, org_id, before, state, limit))


async def floor_set(tx: Tx, org_id: OrgId, currency: str, floor_micros: int) -> None:
    with _said(tx):
        await tx.row(FLOOR_SET, org_id, currency, floor_micros)


async def balance(tx: Tx, org_id: OrgId, currency: str, at: datetime | None) -> Balance:
    """Now, or as it was at the end of a millisecond."""
    if at is None:
        row = await tx.row(BALANCE, org_id, currency)
    else:
        row = await tx.row(BALANCE_BEFORE, org_id, currency, _after(at))
    found = dict(row) if row else {"floor_micros": 0, "balance_micros": 0, "held_micros": 0}
    return Balance(org_id=org_id, currency=currency, at=at or clock.now(), **found)


async def balance_before(tx: Tx, org_id: OrgId, currency: str, at: datetime) -> int:
    row = await tx.row(BALANCE_BEFORE, org_id, currency, floor_id(at))
    return 0 if row is None else int(row["balance_micros"])


async def newest(tx: Tx, wanted: Wanted, *, before: UUID, limit: int) -> list[Entry]:
    low, high = _range(wanted)
    asked = (wanted.org_id, wanted.currency, low, min(high, before), wanted.kind, wanted.subject_id)
    return decode_all(Entry, await tx.rows(NEWEST, *asked, limit))


async def oldest(tx: Tx, wanted: Wanted, *, after: UUID, limit: int) -> list[Entry]:
    low, high = _range(wanted)
    asked = (wanted.org_id, wanted.currency, low, high, wanted.kind, wanted.subject_id)
    return decode_all(Entry, await tx.rows(OLDEST, *asked, limit, after))


async def transaction(tx: Tx, transaction_id: TransactionId) -> Transaction:
    row = await tx.row(TRANSACTION, transaction_id)
    if row is None:
        raise Missing(Code.LEDGER_TRANSACTION_MISSING, "There is no such transaction.")
    return decode(Transaction, row)


async def posting_find(tx: Tx, kind: PostingKind, key: str) -> TransactionId | None:
    """What was posted under a key; None: nothing yet."""
    found: TransactionId | None = await tx.value(POSTED, kind, key)
    return found


async def amount(tx: Tx, transaction_id: TransactionId, org_id: OrgId) -> int:
    """What the organisation got by it."""
    return int(await tx.value(AMOUNT, transaction_id, org_id) or 0)


def _range(wanted: Wanted) -> tuple[UUID, UUID]:
    low = _OLDEST if wanted.from_at is None else floor_id(wanted.from_at)
    return low, _NEWEST if wanted.to_at is None else floor_id(wanted.to_at)


def _after(at: datetime) -> UUID:
    """The first id after the millisecond of an instant."""
    return UUID(int=floor_id(at).int + (1 << 80))
