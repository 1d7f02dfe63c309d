"""What an organisation has, what changed it and what is set aside; and how far below zero it may go."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.billing import (
    BalanceQuery,
    BalanceView,
    CreditLineSet,
    EntryView,
    LedgerFilter,
    LedgerQuery,
    MoneyHoldQuery,
    MoneyHoldView,
    MoneyHoldVoid,
)
from gpuaas.contracts.permissions import P
from gpuaas.domains.billing.ledger import service
from gpuaas.domains.billing.ledger.export import csv_header, csv_lines
from gpuaas.domains.billing.ledger.models import Balance, Entry, Hold, Wanted
from gpuaas.infra.http.context import OrgContext, PlatformContext
from gpuaas.infra.http.listing import before, page
from gpuaas.infra.http.operation import Lane, Stream, operation
from gpuaas.infra.postgres.tx import Sight
from gpuaas.kit import clock
from gpuaas.kit.ids import MoneyHoldId, OrgId

_PERIOD = (Code.PERIOD_REFUSED,)


@operation("GET", "/orgs/{org_id}/balance", permission=P.BILLING_READ, lane=Lane.DEFAULT, tag="billing", errors=_PERIOD)
async def balance_get(cx: OrgContext, query: BalanceQuery) -> BalanceView:
    """Show what the organisation has, and what of it can be spent; now, or as it was at an instant."""
    return balance_view(await service.balance_at(cx.tx, cx.org_id, currency=query.currency, at=query.at))


@operation("GET", "/orgs/{org_id}/ledger", permission=P.BILLING_READ, lane=Lane.DEFAULT, tag="billing", errors=_PERIOD)
async def ledger_list(cx: OrgContext, query: LedgerQuery) -> Page[EntryView]:
    """List what changed the organisation's balance, newest first, each entry with the balance after it."""
    rows = await service.entry_list(cx.tx, _wanted(cx, query), before=before(cx, query), limit=query.limit + 1)
    return page(cx, query, rows, entry_view)


@operation(
    "GET",
    "/orgs/{org_id}/ledger-export/csv",
    errors=_PERIOD,
    permission=P.BILLING_READ,
    lane=Lane.ADMIN,
    transaction=False,
    produces="text/csv",
    tag="billing",
)
async def ledger_export_csv(cx: OrgContext, query: LedgerFilter) -> Stream:
    """Export what changed the organisation's balance as CSV, oldest first."""
    chunks = service.entry_export(cx.db, Sight(cx.org_id), _wanted(cx, query), csv_lines, header=csv_header())
    name = f"ledger-{cx.org_id}-{clock.now():%Y%m%dT%H%M%SZ}.csv"
    return Stream(chunks, "text/csv; charset=utf-8", name)


@operation("GET", "/orgs/{org_id}/holds", permission=P.BILLING_READ, lane=Lane.DEFAULT, tag="billing")
async def money_hold_list(cx: OrgContext, query: MoneyHoldQuery) -> Page[MoneyHoldView]:
    """List what is or was set aside of the balance, newest first."""
    rows = await service.hold_list(cx.tx, cx.org_id, before=before(cx, query), state=query.state, limit=query.limit + 1)
    return page(cx, query, rows, hold_view)


@operation(
    "PUT",
    "/admin/orgs/{org_id}/credit-line",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="billing.credit_line_set",
    tag="billing",
    errors=(Code.ORG_MISSING, Code.BALANCE_TOO_LOW),
)
async def credit_line_set(cx: PlatformContext, org_id: UUID, wanted: CreditLineSet) -> BalanceView:
    """Set how far below zero an organisation's balance may fall. Credit in use cannot be taken away."""
    found = await service.credit_line_set(
        cx.tx, OrgId(org_id), currency=wanted.currency, credit_line_micros=wanted.credit_line_micros
    )
    return balance_view(found)


@operation(
    "POST",
    "/admin/holds/{hold_id}/void",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="billing.hold_void",
    tag="billing",
    errors=(Code.MONEY_HOLD_MISSING, Code.MONEY_HOLD_OVER),
)
async def money_hold_void(cx: PlatformContext, hold_id: UUID, wanted: MoneyHoldVoid) -> MoneyHoldView:
    """Give back what is set aside, before its time. What it was set aside for can then no longer be charged to it."""
    return hold_view(await service.hold_void_open(cx.tx, MoneyHoldId(hold_id)))


def _wanted(cx: OrgContext, query: LedgerQuery | LedgerFilter) -> Wanted:
    return Wanted(
        org_id=cx.org_id,
        currency=query.currency,
        kind=query.kind,
        subject_id=query.subject_id,
        from_at=query.from_at,
        to_at=query.to_at,
    )


def balance_view(found: Balance) -> BalanceView:
    return BalanceView(
        org_id=found.org_id,
        currency=found.currency,
        balance_micros=found.balance_micros,
        held_micros=found.held_micros,
        credit_line_micros=-found.floor_micros,
        available_micros=found.available_micros,
        at=found.at,
    )


def entry_view(entry: Entry) -> EntryView:
    return EntryView(
        transaction_id=entry.id,
        number=entry.number,
        at=entry.at,
        kind=entry.kind,
        amount_micros=entry.amount_micros,
        balance_micros=entry.balance_micros,
        currency=entry.currency,
        subject_id=entry.subject_id,
        reason=entry.reason,
        reverses_id=entry.reverses_id,
        actor=entry.actor,
    )


def hold_view(hold: Hold) -> MoneyHoldView:
    return MoneyHoldView(
        id=hold.id,
        currency=hold.currency,
        amount_micros=hold.amount_micros,
        captured_micros=hold.captured_micros,
        subject_id=hold.subject_id,
        reason=hold.reason,
        state=hold.state,
        state_since=hold.state_since,
        due_at=hold.due_at,
        created_at=hold.created_at,
    )
