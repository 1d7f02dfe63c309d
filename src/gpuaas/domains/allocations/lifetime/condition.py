"""Whether an allocation is whole, from what is known of what it holds: pure."""

from collections.abc import Sequence

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
