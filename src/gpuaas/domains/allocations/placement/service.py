"""The verbs of placement: hold GPUs for an allocation, say whether it would work, say why not.

Always holds: a slot has one holder, the database sees to that; all slots of a request or none; nothing is held on a
node that stops being sold at the same moment; and 'nothing fits' is said only of a moment at which nothing did."""

from random import Random

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.allocations.models import Placed
from gpuaas.domains.allocations.placement import models, store
from gpuaas.domains.allocations.placement.choice import choose
from gpuaas.domains.allocations.placement.explaining import explain
from gpuaas.domains.allocations.placement.models import Candidate, Choice, Group, NoFit
from gpuaas.domains.inventory.models import Sku
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import AllocationId, OrgId, SlotId

MAX_CLAIMS = 16
"""How often a request that loses races tries elsewhere before it takes its turn."""
MAX_TURNS = 50
MAX_LEASES = 100_000
WINDOW_FOR_EACH = 4
"""A window is worth looking at when it shows so many GPUs for each that is wanted."""

Ask = models.Ask
Reason = models.Reason


async def place(tx: Tx, allocation_id: AllocationId, org_id: OrgId, ask: Ask, *, lease_seconds: int) -> Placed | None:
    """Hold GPUs for the allocation, whose row exists; None: nothing fits. `lease_seconds` is how long a node may be
    silent and still be sold from."""
    lost: set[SlotId] = set()
    dice: Random | None = None
    for window in _windows(ask):
        candidates = await store.free(tx, ask, window, lease_seconds=lease_seconds)
        for _ in range(MAX_CLAIMS):
            choice = choose(ask, _without(candidates, lost), dice=dice)
            if choice is None:
                break
            placed, lost_now = await _claim(tx, allocation_id, org_id, ask, choice, lease_seconds, patient=False)
            if placed is not None:
                return placed
            lost |= lost_now
            dice = dice or Random(allocation_id.int)  # noqa: S311 # spreads those who race, no secret
    return await _place_in_turn(tx, allocation_id, org_id, ask, lease_seconds) if lost else None


async def _place_in_turn(
    tx: Tx, allocation_id: AllocationId, org_id: OrgId, ask: Ask, lease_seconds: int
) -> Placed | None:
    """One at a time for each SKU, looking at everything and waiting for whoever is about to take something: he may yet
    give it back. Who loses here has lost to somebody who won."""
    await store.take_turn(tx, ask.sku.id)
    for _ in range(MAX_TURNS):
        choice = choose(ask, await store.free(tx, ask, None, lease_seconds=lease_seconds))
        if choice is None:
            return None
        placed, _lost = await _claim(tx, allocation_id, org_id, ask, choice, lease_seconds, patient=True)
        if placed is not None:
            return placed
    raise Conflict(Code.REQUEST_IN_PROGRESS, "Many ask for the same GPUs at this moment. Try again.", retry_after=1)


async def _claim(
    tx: Tx, allocation_id: AllocationId, org_id: OrgId, ask: Ask, choice: Choice, lease_seconds: int, *, patient: bool
) -> tuple[Placed | None, set[SlotId]]:
    holds, lost = await store.claim(
        tx,
        allocation_id,
        org_id,
        _wanted(ask, choice),
        needed=ask.gpus,
        lease_seconds=lease_seconds,
        patient=patient,
    )
    return (Placed(holds=holds, explanation=choice.summary), lost) if holds else (None, lost)


def _wanted(ask: Ask, choice: Choice) -> list[SlotId]:
    """On one node any of the group will do, so that two who want one each do not want the same one."""
    if len(choice.rooms) == 1:
        return list(choice.rooms[0].slots)
    return [slot for room in choice.rooms for slot in room.slots[: ask.gpu_count]]


async def whether(tx: Tx, ask: Ask, *, lease_seconds: int) -> Choice | None:
    """What would be chosen now; nothing is held."""
    for window in _windows(ask):
        choice = choose(ask, await store.free(tx, ask, window, lease_seconds=lease_seconds))
        if choice is not None:
            return choice
    return None


async def groups(tx: Tx, sku: Sku, *, lease_seconds: int) -> list[Group]:
    """What is sold from now, held or not."""
    return await store.groups(tx, sku, lease_seconds=lease_seconds)


async def why_not(tx: Tx, ask: Ask, *, lease_seconds: int) -> NoFit:
    return explain(
        ask,
        await store.why_not(tx, ask, lease_seconds=lease_seconds),
        nodes_large_enough=await store.large_enough(tx, ask),
        earliest_end=await store.earliest_end(tx, ask.sku.id, longest=MAX_LEASES),
    )


def _windows(ask: Ask) -> list[int | None]:
    return [window for window in store.WINDOWS if window is None or window >= WINDOW_FOR_EACH * ask.gpus]


def _without(candidates: list[Candidate], lost: set[SlotId]) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.slot_id not in lost] if lost else candidates
