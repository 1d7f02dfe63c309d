"""What is said of allocations: what will end unless somebody acts, what is sick, and what ended by itself."""

from gpuaas.contracts.events.allocations import (
    AllocationAbandoned,
    AllocationDegraded,
    AllocationExpiring,
    AllocationFailed,
    AllocationIdle,
    AllocationReleasing,
    AllocationRestored,
    AllocationStarted,
    AllocationStartFailed,
    AllocationStopped,
)
from gpuaas.contracts.http.allocations import StopReason
from gpuaas.domains.notifications.words import Facts, Words, at, words

_WHY = {
    "idle": "Nobody used its GPUs.",
    "lease_expired": "Its lease ended.",
    "node_lost": "The machine it ran on was lost.",
    "balance_empty": "The balance was used up, and no money came in time.",
    "budget_spent": "The project's budget was spent, and nobody started it in time.",
}
_STOPPED = {
    StopReason.USER: "Its GPUs are kept for you, so it is charged as before.",
    StopReason.BALANCE: "The balance is used up. It is not charged, and started again as soon as there is money.",
    StopReason.BUDGET: "The project's budget is spent. It is not charged; raise the budget, then start it.",
}


def idle(event: AllocationIdle, facts: Facts) -> Words:
    return words(
        f"{facts.allocation} is idle and will be released",
        f"Nobody has used its GPUs since {at(event.idle_since)}.",
        f"At {at(event.reclaim_at)} it is released and its data is erased, unless it is used or extended.",
        **_about(facts),
    )


def expiring(event: AllocationExpiring, facts: Facts) -> Words:
    return words(
        f"The lease of {facts.allocation} ends soon",
        f"At {at(event.expires_at)} it is released and its data is erased, unless it is extended.",
        **_about(facts),
    )


def degraded(event: AllocationDegraded, facts: Facts) -> Words:
    return words(
        f"{facts.allocation} is degraded",
        "Something it holds is lost or sick. What cannot be used is not charged.",
        f"What we see: {event.reason}.",
        **_about(facts),
    )


def restored(event: AllocationRestored, facts: Facts) -> Words:
    return words(f"{facts.allocation} is whole again", "All of its GPUs are usable.", **_about(facts))


def stopped(event: AllocationStopped, facts: Facts) -> Words:
    kept = "" if event.release_at is None else f" At {at(event.release_at)} it is released and they are erased."
    return words(
        f"{facts.allocation} is stopped",
        _STOPPED[event.reason],
        f"Nobody can log in and nothing runs; its data and its GPUs are kept.{kept}",
        **_about(facts),
    )


def started(event: AllocationStarted, facts: Facts) -> Words:
    return words(
        f"{facts.allocation} is started again",
        f"Its GPUs were proven usable at {at(event.started_at)}, and its data is as it was.",
        "It is charged from then on.",
        **_about(facts),
    )


def start_failed(event: AllocationStartFailed, facts: Facts) -> Words:
    return words(
        f"{facts.allocation} could not be started",
        f"The reason: {event.reason}.",
        "It is stopped as before, and its data is kept.",
        **_about(facts),
    )


def failed(event: AllocationFailed, facts: Facts) -> Words:
    return words(
        f"{facts.allocation} could not be made ready",
        f"The reason: {event.reason}.",
        "It was not charged.",
        **_about(facts),
        code=event.code,
    )


def ended(event: AllocationReleasing, facts: Facts) -> Words:
    why = _WHY.get(event.reason, "") or f"The reason: {event.reason}."
    by = "An operator released it. " if event.forced else ""
    return words(
        f"{facts.allocation} is being released",
        f"{by}{why}",
        f"It is not charged from {at(event.requested_at)} on; the data on it is erased.",
        **_about(facts),
    )


def abandoned(event: AllocationAbandoned, facts: Facts) -> Words:
    return words(
        f"{facts.allocation} could not be released",
        "Its GPUs are kept from others until an operator has looked. It is not charged, and there is nothing you have "
        "to do.",
        **_about(facts),
    )


def _about(facts: Facts) -> dict[str, str]:
    return {"organisation": facts.org, "project": facts.project, "allocation": facts.allocation}
