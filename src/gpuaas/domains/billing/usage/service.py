"""The verbs of usage: summed up, exported; and for how long the balance lasts."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.usage import RunwayView, UsageBy
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.meters import service as meters
from gpuaas.domains.billing.meters.models import Burn
from gpuaas.domains.billing.meters.rating import lasts_seconds
from gpuaas.domains.billing.usage import store
from gpuaas.domains.billing.usage.export import csv_header, csv_lines
from gpuaas.domains.billing.usage.models import Line, Wanted
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Sight, Tx
from gpuaas.kit import clock
from gpuaas.kit.errors import Detail, Refused
from gpuaas.kit.ids import OrgId
from gpuaas.kit.money import DEFAULT_CURRENCY

MOST_LINES = 1_000
USUAL = timedelta(days=30)
LONGEST = timedelta(days=800)
FARTHEST_SECONDS = 100 * 365 * 86_400
_DAY = timedelta(days=1)


def wanted_of(
    org_id: OrgId,
    from_at: datetime | None,
    to_at: datetime | None,
    *,
    project_id: UUID | None,
    sku_id: UUID | None,
    user_id: UUID | None,
) -> Wanted:
    """With both ends: the last thirty days, unless said otherwise."""
    given = {name: at for name, at in (("from", from_at), ("to", to_at)) if at is not None}
    for name, at in given.items():
        if abs(at - clock.now()) > 10 * 365 * _DAY:
            raise _refused(name, "it is more than ten years away")
    until = to_at or max(clock.now(), from_at or clock.now())
    since = from_at or until - USUAL
    if since > until:
        raise _refused("from", "it lies after the end")
    if until - since > LONGEST:
        raise _refused("from", f"it lies more than {LONGEST.days} days before the end")
    return Wanted(org_id=org_id, from_at=since, to_at=until, project_id=project_id, sku_id=sku_id, user_id=user_id)


async def usage_sum(tx: Tx, wanted: Wanted, *, by: UsageBy) -> tuple[list[Line], bool]:
    """The lines, and whether these are all."""
    found = await store.summed(tx, wanted, by=by, limit=MOST_LINES + 1)
    return found[:MOST_LINES], len(found) <= MOST_LINES


async def usage_export(db: Database, wanted: Wanted) -> AsyncIterator[bytes]:
    """A day at a time; no connection is held while the reader is slow."""
    yield csv_header()
    since = wanted.from_at.astimezone(UTC)
    while since < wanted.to_at:
        until = min((since + _DAY).replace(hour=0, minute=0, second=0, microsecond=0), wanted.to_at)
        async with db.read(Sight(wanted.org_id)) as tx:
            found = await store.details(tx, msgspec.structs.replace(wanted, from_at=since, to_at=until))
        if found:
            yield csv_lines(found)
        since = until


async def runways(tx: Tx, org_id: OrgId) -> list[RunwayView]:
    """Of each currency in which something runs; of the usual one in any case."""
    burning = {burn.currency: burn for burn in await meters.burn(tx, org_id)}
    return [
        await _runway(tx, org_id, currency, burning.get(currency)) for currency in sorted({*burning, DEFAULT_CURRENCY})
    ]


async def runways_of(tx: Tx, orgs: Sequence[OrgId]) -> dict[tuple[OrgId, str], int | None]:
    """For how long the balance of each lasts, in each currency in which something of it runs."""
    return {
        (burn.org_id, burn.currency): (await _runway(tx, burn.org_id, burn.currency, burn)).runway_seconds
        for burn in await meters.burn_of(tx, orgs)
    }


def bounded(seconds: int | None) -> int | None:
    return None if seconds is None else min(seconds, FARTHEST_SECONDS)


async def _runway(tx: Tx, org_id: OrgId, currency: str, burn: Burn | None) -> RunwayView:
    """What is set aside counts: it is set aside for what runs."""
    balance = await ledger.balance_at(tx, org_id, currency=currency)
    unposted = 0 if burn is None else burn.unposted_micros
    per_hour = 0 if burn is None else burn.micros_per_hour
    seconds = bounded(lasts_seconds(balance.balance_micros - balance.floor_micros - unposted, per_hour))
    return RunwayView(
        currency=currency,
        balance_micros=balance.balance_micros,
        unposted_micros=unposted,
        credit_line_micros=-balance.floor_micros,
        burn_micros_per_hour=per_hour,
        meters=0 if burn is None else burn.meters,
        runway_seconds=seconds,
        empty_at=None if seconds is None else balance.at + timedelta(seconds=seconds),
    )


def _refused(field: str, reason: str) -> Refused:
    message = "That time cannot be asked for."
    return Refused(Code.PERIOD_REFUSED, message, details=[Detail(field, reason)])
