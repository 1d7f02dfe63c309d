"""The verbs of an allocation's money: may it be paid for; take and give back its deposit; begin, end and settle its
meter; what it has cost.

Always holds: nothing is charged before the GPUs were proven usable, nor after the release was asked for, nor after the
last sign of life of a silent node; a deposit is taken once, and open only while its allocation lives. Whoever calls
holds the allocation's row; the turn at the organisation's ledger comes after it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.billing import FaultCredited
from gpuaas.contracts.http.billing import AccountKind, MoneyHoldState, PostingKind
from gpuaas.domains.allocations.models import Allocation, Shown
from gpuaas.domains.allocations.money import store
from gpuaas.domains.allocations.money.deposit import deposit_micros, refusal
from gpuaas.domains.allocations.money.models import NOTHING, Money, Offer
from gpuaas.domains.allocations.timeline.service import timeline_add
from gpuaas.domains.billing.budgets import service as budgets
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import Entry, HoldWanted, Posting, Wanted, between
from gpuaas.domains.billing.meters import service as meters
from gpuaas.domains.billing.meters.models import MeterWanted, Running
from gpuaas.domains.billing.meters.rating import lasts_seconds
from gpuaas.domains.billing.usage import service as usage
from gpuaas.domains.inventory import service as inventory
from gpuaas.domains.inventory.models import Price
from gpuaas.domains.pki import service as pki
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import clock, signed_usage
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import OrgId, ProjectId
from gpuaas.kit.money import format_micros
from gpuaas.ports.policy import PolicyReader

MARGIN = timedelta(days=7)
"""A deposit outlives the lease by so much: it is given back by the release, not by the calendar."""
MAX_CREDITS = 20
MAX_PAGE = 200
MAX_CERTIFICATES = 100
LOST = "node "
"""How the reason begins when the clock was stopped for a node that was lost."""
_LAST = UUID(int=(1 << 128) - 1)
_READY = timedelta(hours=1)
_MAX_REASON = 200
_MAX_WORDS = 500


def key_of(allocation_id: UUID) -> str:
    return f"allocation:{allocation_id}"


# before it is asked for ----------------------------------------------------------------------------------------------
async def offer(tx: Tx, policy: PolicyReader, org_id: OrgId, project_id: ProjectId, price: Price, gpus: int) -> Offer:
    """What it would take, and what there is: what is used and not posted yet is spent."""
    per_hour = price.micros_per_gpu_hour * gpus
    minutes = policy.number("billing.hold_minutes", org_id, project_id)
    balance = await ledger.balance_at(tx, org_id, currency=price.currency)
    burning = [burn for burn in await meters.burn(tx, org_id) if burn.currency == price.currency]
    unposted = sum(burn.unposted_micros for burn in burning)
    spendable, burns = balance.balance_micros - balance.floor_micros - unposted, sum(b.micros_per_hour for b in burning)
    return Offer(
        currency=price.currency,
        micros_per_hour=per_hour,
        hold_minutes=minutes,
        hold_micros=deposit_micros(per_hour, minutes),
        available_micros=balance.available_micros - unposted,
        runway_seconds=usage.bounded(lasts_seconds(spendable, per_hour + burns)),
        lasts_seconds=usage.bounded(lasts_seconds(spendable, burns)),
    )


async def require(tx: Tx, policy: PolicyReader, org_id: OrgId, project_id: ProjectId, price: Price, gpus: int) -> Offer:
    """Refuse what cannot be paid for, before anything is reserved for it."""
    wanted = await offer(tx, policy, org_id, project_id, price, gpus)
    if not wanted.affordable:
        raise _too_low(wanted, policy.number("payments.top_up_min_micros", org_id))
    return wanted


def _too_low(wanted: Offer, least: int) -> Conflict:
    return Conflict(
        Code.BALANCE_TOO_LOW,
        refusal(
            needed=wanted.hold_micros,
            available=wanted.available_micros,
            minutes=wanted.hold_minutes,
            micros_per_hour=wanted.micros_per_hour,
            currency=wanted.currency,
            least=least,
        ),
    )


# the deposit ---------------------------------------------------------------------------------------------------------
async def deposit_take(tx: Tx, policy: PolicyReader, allocation: Allocation) -> None:
    """Set aside what its first minutes cost; `balance_too_low` if that is not there, `budget_spent` if its project may
    spend no more."""
    if await ledger.hold_find(tx, key_of(allocation.id)) is not None:
        return
    price = await inventory.price_get(tx, allocation.price_id)
    wanted = await offer(tx, policy, allocation.org_id, allocation.project_id, price, allocation.gpus)
    if wanted.micros_per_hour > 0:  # it may have waited in the queue since it was asked for
        await budgets.refusal(tx, allocation.project_id, price.currency)
    if not wanted.affordable:
        raise _too_low(wanted, policy.number("payments.top_up_min_micros", allocation.org_id))
    if wanted.hold_micros == 0:
        return
    until = clock.now() + _READY + timedelta(seconds=allocation.lease_seconds) + MARGIN
    await ledger.hold_take(
        tx,
        HoldWanted(
            key=key_of(allocation.id),
            org_id=allocation.org_id,
            amount_micros=wanted.hold_micros,
            until=until,
            currency=price.currency,
            subject_id=allocation.id,
            reason=f"deposit of allocation {allocation.name}",
        ),
    )
    await timeline_add(tx, allocation, "held", f"{format_micros(wanted.hold_micros, price.currency)} are set aside")


async def deposit_extend(tx: Tx, allocation: Allocation) -> None:
    """It lasts longer, and so does its deposit. One that was given back by hand stays so."""
    known = await ledger.hold_find(tx, key_of(allocation.id))
    if known is None or known.state is not MoneyHoldState.OPEN or allocation.expires_at is None:
        return
    if known.due_at is not None and known.due_at > clock.now():
        until = allocation.expires_at + MARGIN
        await ledger.hold_extend(tx, known.id, amount_micros=known.amount_micros, until=until)


async def deposit_void(tx: Tx, allocation: Allocation) -> None:
    """Give it back, if it is still there."""
    known = await ledger.hold_find(tx, key_of(allocation.id))
    if known is not None and known.state is MoneyHoldState.OPEN:
        await ledger.hold_void(tx, known.id)


# the meter -----------------------------------------------------------------------------------------------------------
async def meter_begin(tx: Tx, allocation: Allocation) -> None:
    """It is charged from the instant at which the last of its GPUs was proven usable."""
    price = await inventory.price_get(tx, allocation.price_id)
    wanted = MeterWanted(
        subject_id=allocation.id,
        org_id=allocation.org_id,
        project_id=allocation.project_id,
        sku_id=allocation.sku_id,
        gpus=allocation.gpus,
        price_id=price.id,
        micros_per_gpu_hour=price.micros_per_gpu_hour,
        currency=price.currency,
        asked_by=allocation.requested_by,
        asked_by_id=allocation.requested_by_id,
    )
    proven = await store.proven_at(tx, allocation.id) or allocation.active_at or await store.now(tx)
    await meters.meter_open(tx, wanted, at=proven)


async def meter_end(tx: Tx, allocation: Allocation) -> None:
    """It was asked to be given back: nothing after that is charged, nor after the last sign of life of its nodes."""
    asked = allocation.release_requested_at or await store.now(tx)
    silent = await store.silent_since(tx, allocation.id)
    if silent is not None and silent < asked:
        await meters.meter_close(tx, allocation.id, at=silent, reason="the last sign of life of its node")
    else:
        await meters.meter_close(tx, allocation.id, at=asked, reason=allocation.release_reason[:_MAX_REASON])


async def settle(tx: Tx, allocation: Allocation) -> None:
    """Post its last seconds and give the deposit back. A second time, or without a meter, nothing happens."""
    before = await meters.meter_get(tx, allocation.id)
    if before is not None:
        await meter_end(tx, allocation)  # its node may have been silent before anybody noticed
        settled = await meters.meter_settle(tx, allocation.id)
        if settled is not None and (before.settled_at is None or before.billed_micros != settled.billed_micros):
            cost = format_micros(settled.billed_micros, settled.currency)
            await timeline_add(tx, allocation, "settled", f"{cost} for {settled.billed_seconds} usable seconds")
    await deposit_void(tx, allocation)


# the clock -----------------------------------------------------------------------------------------------------------
class Clocks:
    """The meters of some allocations, as they were when they were looked at."""

    def __init__(self, found: dict[UUID, Running]) -> None:
        self._found = found

    def open(self, allocation_id: UUID) -> bool:
        found = self._found.get(allocation_id)
        return found is not None and found.closed_at is None

    def stopped(self, allocation_id: UUID) -> bool:
        """For a fault, whatever else keeps it from running."""
        return self.stopped_at(allocation_id) is not None

    def stopped_at(self, allocation_id: UUID) -> datetime | None:
        found = self._found.get(allocation_id)
        return None if found is None else found.fault_since

    def lost_at(self, allocation_id: UUID) -> datetime | None:
        """The same, if it was for a node that was lost."""
        found = self._found.get(allocation_id)
        return found.fault_since if found is not None and found.fault_reason.startswith(LOST) else None


async def clocks(tx: Tx, allocations: Sequence[UUID]) -> Clocks:
    return Clocks(await meters.costs(tx, allocations))


async def clock_stop(tx: Tx, allocation: Allocation, before: Clocks, *, at: datetime, reason: str) -> None:
    """It is not charged since then. What was charged beyond goes back at once, with its reason."""
    stood = before.stopped_at(allocation.id)
    if stood is not None and stood <= at:
        return
    why = reason[:_MAX_REASON]
    await meters.meter_pause(tx, allocation.id, at=at, reason=why)
    if not (await clocks(tx, [allocation.id])).stopped(allocation.id):  # it fell into a pause that is over
        await meters.meter_pause(tx, allocation.id, at=await store.now(tx), reason=why)
    settled = await meters.meter_settle(tx, allocation.id)
    seconds = "" if settled is None else f" It was charged for {settled.billed_seconds} seconds before."
    await timeline_add(
        tx, allocation, "not_charged", f"since {at:%Y-%m-%d %H:%M:%S} UTC, the last good proof: {reason}.{seconds}"
    )


async def clock_start(tx: Tx, allocation: Allocation, before: Clocks) -> None:
    """It is proven usable again, and charged from now on, unless it is stopped for money; for the time in which its
    nodes were not heard of, by what they counted and signed, at most for that time."""
    seconds = 0
    if (since := before.lost_at(allocation.id)) is not None:
        seconds = await _counted(tx, allocation, since)
        await meters.meter_pause_later(tx, allocation.id, seconds=seconds)
    await meters.meter_resume(tx, allocation.id, at=await store.now(tx))
    more = f"; its nodes counted {seconds} usable seconds while they were not heard of" if seconds else ""
    stands = "nothing of it is out of order" if allocation.stopped_for_money else "it can be used again"
    await timeline_add(tx, allocation, "charged_again", f"{stands}{more}")


async def _counted(tx: Tx, allocation: Allocation, since: datetime) -> int:
    """The least that all of its silent nodes counted; nothing, if one of them did not sign what it says."""
    told = []
    for one in await store.counted(tx, allocation.id, since):
        seconds = msgspec.json.decode(one.usage, type=dict[UUID, int])
        if allocation.id not in seconds:
            return 0
        said = signed_usage.words(one.node_id, seconds)
        keys = await pki.certificate_list(tx, one.node_id, after=UUID(int=0), limit=MAX_CERTIFICATES)
        good = [key for key in keys if key.revoked_at is None]
        if not any(signed_usage.signed_by(key.certificate, said, one.usage_signature) for key in good):
            await timeline_add(tx, allocation, "usage_not_believed", "a node's count is not signed with its key")
            return 0
        told.append(max(seconds[allocation.id] - one.before, 0))
    return min(told, default=0)


async def fault_credit(tx: Tx, policy: PolicyReader, allocation: Allocation, fault_id: UUID, reason: str) -> None:
    """The rule for hardware faults: so many minutes of its price for what was lost with it, once for each fault and
    allocation; all of them together at most what it has cost: who can bring GPUs to fail earns nothing by it."""
    key = f"fault:{fault_id}:{allocation.id}"
    minutes = policy.number("billing.fault_credit_minutes", allocation.org_id)
    cost = await meters.meter_cost(tx, allocation.id)
    if cost is None or await ledger.posting_find(tx, PostingKind.CREDIT, key) is not None:
        return
    amount = deposit_micros(cost.micros_per_hour, minutes)
    if amount > 0:
        amount = min(amount, cost.micros - await _credited(tx, allocation, cost.currency))
    if amount <= 0:
        return
    await ledger.post(
        tx,
        Posting(
            kind=PostingKind.CREDIT,
            key=key,
            org_id=allocation.org_id,
            legs=between(amount, AccountKind.CREDITS),
            currency=cost.currency,
            subject_id=allocation.id,
            reason=f"hardware fault of allocation {allocation.name}: {reason}"[:_MAX_WORDS],
        ),
    )
    given = format_micros(amount, cost.currency)
    await timeline_add(tx, allocation, "credited", f"{given} by the rule for hardware faults: {reason}")
    tx.emit(
        FaultCredited(
            allocation_id=allocation.id,
            project_id=allocation.project_id,
            fault_id=fault_id,
            currency=cost.currency,
            amount_micros=amount,
            reason=reason[:_MAX_WORDS],
        ),
        subject_id=allocation.id,
        org_id=allocation.org_id,
    )


async def _credited(tx: Tx, allocation: Allocation, currency: str) -> int:
    """All that was credited for it."""
    wanted = Wanted(org_id=allocation.org_id, currency=currency, kind=PostingKind.CREDIT, subject_id=allocation.id)
    total, before = 0, _LAST
    while found := await ledger.entry_list(tx, wanted, before=before, limit=MAX_PAGE):
        total, before = total + sum(entry.amount_micros for entry in found), found[-1].id
    return total


# as people see it ----------------------------------------------------------------------------------------------------
async def money_of(tx: Tx, found: Sequence[Shown]) -> dict[UUID, Money]:
    """Of each of these: what it cost so far, what is set aside, for how long the balance lasts."""
    ids = [one.id for one in found]
    costs, held = await meters.costs(tx, ids), await ledger.held_for(tx, ids)
    lasts = await usage.runways_of(tx, list({one.org_id for one in found}))
    return {one.id: _money(one, costs, held, lasts) for one in found}


def _money(
    one: Shown,
    costs: dict[UUID, Running],
    held: dict[UUID, int],
    lasts: dict[tuple[OrgId, str], int | None],
) -> Money:
    cost = costs.get(one.id)
    runway = lasts.get((one.org_id, one.currency))
    if cost is None:
        return Money(held_micros=held.get(one.id, 0), runway_seconds=runway)
    return Money(
        cost_micros=cost.micros,
        usable_seconds=cost.seconds,
        held_micros=held.get(one.id, 0),
        charging=cost.closed_at is None and cost.paused_since is None,
        paused_since=cost.paused_since,
        paused_reason=cost.paused_reason,
        runway_seconds=runway,
    )


async def credits_of(tx: Tx, one: Shown) -> list[Entry]:
    """What its organisation got back or was given for it, the newest first."""
    found: list[Entry] = []
    for kind in (PostingKind.USAGE_CREDIT, PostingKind.CREDIT):
        wanted = Wanted(org_id=one.org_id, currency=one.currency, kind=kind, subject_id=one.id)
        found += await ledger.entry_list(tx, wanted, before=_LAST, limit=MAX_CREDITS)
    return sorted(found, key=lambda entry: entry.id, reverse=True)


async def money_of_one(tx: Tx, one: Shown) -> Money:
    return (await money_of(tx, [one])).get(one.id, NOTHING)
