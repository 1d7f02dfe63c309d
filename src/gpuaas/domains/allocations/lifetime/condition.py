"""Whether an allocation is whole, and whether it can be charged for, from what is known of what it holds: pure.

What degrades it and what stops its clock are not the same: a GPU that an operator looks at still works for its
tenant."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

MAX_REASON = 400


class HeldGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU an allocation holds, and what is known of it."""

    node_name: str
    node_lost: bool
    serial: str
    present: bool
    quarantine: str
    """Why it is in quarantine; empty: it is not."""
    node_seen_at: datetime | None = None
    seen_at: datetime | None = None
    """When it last answered."""
    fault_id: UUID | None = None
    """Of the quarantine, where a fault or a failed check is what it is in for."""
    fault_at: datetime | None = None


class Unusable(msgspec.Struct, frozen=True, kw_only=True):
    """Why nothing is charged, and the last instant at which it was known to be good."""

    reason: str
    good_at: datetime
    fault_id: UUID | None = None
    """A fault of the hardware, for which there is a credit."""


def troubles(held: Sequence[HeldGpu]) -> str:
    """What is wrong, in words; empty: nothing. A lost node is one trouble, however many of its GPUs are held."""
    lost = sorted({gpu.node_name for gpu in held if gpu.node_lost})
    reasons = [f"node {name} is lost" for name in lost]
    for gpu in sorted(held, key=lambda gpu: (gpu.node_name, gpu.serial)):
        if gpu.node_lost:
            continue
        if not gpu.present:
            reasons.append(f"GPU {gpu.serial} is not found on {gpu.node_name}")
        elif gpu.quarantine:
            reasons.append(f"GPU {gpu.serial} on {gpu.node_name} is in quarantine: {gpu.quarantine}")
    return "; ".join(reasons)[:MAX_REASON]


def unusable(held: Sequence[HeldGpu], beat: timedelta) -> list[Unusable]:
    """What keeps its tenant from using it, as far as that is proven. A node that beats says with each beat that it
    knows of no fault: what was told of a fault came after the beat before it."""
    found = {
        gpu.node_name: Unusable(reason=f"node {gpu.node_name} is lost", good_at=gpu.node_seen_at)
        for gpu in held
        if gpu.node_lost and gpu.node_seen_at is not None
    }
    for gpu in held:
        if gpu.node_lost:
            continue
        if gpu.fault_id is not None and gpu.fault_at is not None:
            seen = gpu.node_seen_at or gpu.fault_at
            found[gpu.serial] = Unusable(
                reason=f"GPU {gpu.serial} on {gpu.node_name}: {gpu.quarantine}",
                good_at=min(seen, gpu.fault_at - beat),
                fault_id=gpu.fault_id,
            )
        elif not gpu.present and gpu.seen_at is not None:
            reason = f"GPU {gpu.serial} is not found on {gpu.node_name}"
            found[gpu.serial] = Unusable(reason=reason, good_at=gpu.seen_at)
    return sorted(found.values(), key=lambda one: one.good_at)
