"""Which NVMe and which fabric device goes with which GPU: the nearest free one, each at most once.

Behind one switch beats the same NUMA node; further away there is no pair. Nothing but addresses decides a tie, so the
same host gives the same pairs every time."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Located:
    address: str
    bridges: tuple[str, ...]
    numa: int


def closeness(one: Located, other: Located) -> int:
    """0: not near. 1: the same NUMA node. More: the number of ports both are behind, and one."""
    shared = 0
    for mine, theirs in zip(one.bridges, other.bridges, strict=False):
        if mine != theirs:
            break
        shared += 1
    if shared:
        return 1 + shared
    return 1 if one.numa == other.numa and one.numa >= 0 else 0


def pair(gpus: list[Located], devices: list[Located]) -> dict[str, str]:
    """GPU address → device address, the closest pairs first."""
    candidates = sorted(
        (-closeness(gpu, device), gpu.address, device.address)
        for gpu in gpus
        for device in devices
        if closeness(gpu, device)
    )
    pairs: dict[str, str] = {}
    used: set[str] = set()
    for _, gpu, device in candidates:
        if gpu not in pairs and device not in used:
            pairs[gpu] = device
            used.add(device)
    return pairs
