"""How an organisation stands; and for operators, giving it time."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.standing import StandingPause, StandingsView, StandingView
from gpuaas.contracts.permissions import P
from gpuaas.domains.billing.standing import service
from gpuaas.domains.billing.standing.ladder import NEXT, runway_seconds
from gpuaas.domains.billing.standing.models import Facts, Place
from gpuaas.domains.billing.standing.wording import advice
from gpuaas.infra.http.context import OrgContext, PlatformContext
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.ids import OrgId


@operation("GET", "/orgs/{org_id}/standing", permission=P.BILLING_READ, lane=Lane.DEFAULT, tag="billing")
async def standing_get(cx: OrgContext) -> StandingsView:
    """Show how the organisation stands with its money: what comes next and when, and how to stop it."""
    return await _view(cx.tx, cx.org_id)


@operation(
    "PUT",
    "/admin/orgs/{org_id}/standing-pause",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="billing.standing_pause",
    tag="billing",
    errors=(Code.ORG_MISSING, Code.STANDING_PAUSE_REFUSED),
)
async def standing_pause(cx: PlatformContext, org_id: UUID, wanted: StandingPause) -> StandingsView:
    """Give an organisation time: what is stopped or released for its empty balance is not before an instant.

    Nothing new begins meanwhile, and what runs is charged. Without an instant, an earlier pause ends."""
    place = Place(OrgId(org_id), wanted.currency)
    await service.pause(cx.tx, cx.actor, cx.policy, place, until=wanted.until, reason=wanted.reason)
    return await _view(cx.tx, place.org_id)


async def _view(tx: Tx, org_id: OrgId) -> StandingsView:
    return StandingsView(org_id=org_id, standings=list(map(view, await service.standings(tx, org_id))))


def view(found: Facts) -> StandingView:
    return StandingView(
        currency=found.currency,
        rung=found.rung,
        since=found.since,
        next_rung=None if found.due_at is None else NEXT[found.rung],
        due_at=found.due_at,
        paused_until=found.paused_until if found.paused else None,
        balance_micros=found.balance_micros,
        unposted_micros=found.unposted_micros,
        credit_line_micros=-found.floor_micros,
        spendable_micros=found.spendable_micros,
        burn_micros_per_hour=found.burn_micros_per_hour,
        runway_seconds=runway_seconds(found),
        advice=advice(found),
    )
