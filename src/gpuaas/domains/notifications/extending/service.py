"""The link that keeps an allocation which would end: the same as renewing it."""

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.contracts.permissions import P
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.notifications.links.models import Action, Outcome, Preview, Visit
from gpuaas.domains.notifications.words import at
from gpuaas.infra.postgres.tx import NIL
from gpuaas.kit.errors import Missing

_GONE = Preview(title="There is nothing to keep", text="This allocation does not exist any more.")


async def describe(visit: Visit) -> Preview:
    try:
        allocation = await allocations.allocation_get(visit.tx, visit.link.subject_id or NIL)
    except Missing:
        return _GONE
    if allocation.org_id != visit.org_id:
        return _GONE
    if allocation.state is not AllocationState.ACTIVE:
        return Preview(
            title="There is nothing to keep",
            text=f"{allocation.name} is {allocation.state}: only an active allocation can be kept.",
            project_id=allocation.project_id,
        )
    hours = allocation.lease_seconds // 3600
    last = "" if allocation.ends_at is None else f", but not beyond {at(allocation.ends_at)}"
    ends = allocation.reclaim_at or allocation.expires_at
    return Preview(
        title=f"Keep {allocation.name}?",
        text=f"Its lease begins anew: {hours or 1} h from now{last}. It goes on being charged.",
        button="Keep it",
        facts=[
            ("Allocation", allocation.name),
            ("GPUs", str(allocation.gpus)),
            ("Ends now at", "" if ends is None else at(ends)),
        ],
        project_id=allocation.project_id,
    )


async def act(visit: Visit, prepared: object) -> Outcome:
    assert visit.link.subject_id is not None  # noqa: S101 # it was described just before
    renewed = await allocations.allocation_renew(visit.tx, visit.link.subject_id, seconds=None)
    until = "" if renewed.expires_at is None else f" It lasts until {at(renewed.expires_at)}."
    return Outcome(title=f"{renewed.name} is kept", text=f"Its lease has begun anew.{until}")


EXTEND = Action(name="allocation.extend", permission=P.ALLOCATIONS_MANAGE, describe=describe, act=act)
