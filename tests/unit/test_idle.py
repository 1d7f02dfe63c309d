"""When an allocation nobody uses is noted, warned and reclaimed; and whether one is whole: tables."""

from datetime import UTC, datetime, timedelta

import pytest

from gpuaas.domains.allocations.lifetime.condition import HeldGpu, troubles
from gpuaas.domains.allocations.lifetime.idle import Act, Rules, Use, Was, decide

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
RULES = Rules(idle=timedelta(hours=2), grace=timedelta(minutes=30), percent=5, kept=timedelta(days=7))
IDLE, EDGE, BUSY = (Use(known=True, percent=percent) for percent in (1.0, 5.0, 5.1))
UNKNOWN = Use(known=False, percent=0.0)
NEVER = Was(idle_since=None, reclaim_at=None)


def was(hours: float, reclaim_in_minutes: float | None = None) -> Was:
    at = None if reclaim_in_minutes is None else NOW + timedelta(minutes=reclaim_in_minutes)
    return Was(idle_since=NOW - timedelta(hours=hours), reclaim_at=at)


@pytest.mark.parametrize(
    ("rules", "use", "before", "act"),
    [
        (RULES, BUSY, NEVER, Act.NOTHING),
        (RULES, IDLE, NEVER, Act.NOTE),
        (RULES, EDGE, NEVER, Act.NOTE),
        (RULES, UNKNOWN, NEVER, Act.NOTHING),
        (RULES, None, NEVER, Act.NOTHING),
        (RULES, IDLE, was(1.9), Act.NOTHING),
        (RULES, IDLE, was(2), Act.WARN),
        (RULES, IDLE, was(200), Act.WARN),
        (RULES, BUSY, was(1), Act.FORGET),
        (RULES, UNKNOWN, was(1), Act.FORGET),
        (RULES, None, was(200), Act.FORGET),
        (RULES, IDLE, was(3, 10), Act.NOTHING),
        (RULES, IDLE, was(3, 0), Act.RECLAIM),
        (RULES, IDLE, was(3, -600), Act.RECLAIM),
        (RULES, BUSY, was(3, -600), Act.FORGET),
        (RULES, UNKNOWN, was(3, -600), Act.FORGET),
        (None, IDLE, NEVER, Act.NOTHING),
        (None, IDLE, was(3), Act.FORGET),
        (None, IDLE, was(3, -1), Act.FORGET),
    ],
)
def test_what_is_done_about_an_idle_allocation(rules: Rules | None, use: Use | None, before: Was, act: Act) -> None:
    assert decide(NOW, rules, use, before) is act


def gpu(serial: str, *, node: str = "n1", lost: bool = False, present: bool = True, quarantine: str = "") -> HeldGpu:
    return HeldGpu(node_name=node, node_lost=lost, serial=serial, present=present, quarantine=quarantine)


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ([], ""),
        ([gpu("A"), gpu("B")], ""),
        ([gpu("A", lost=True), gpu("B", lost=True), gpu("C", node="n2")], "node n1 is lost"),
        ([gpu("A"), gpu("B", quarantine="XID 79")], "GPU B on n1 is in quarantine: XID 79"),
        ([gpu("A", present=False)], "GPU A is not found on n1"),
        ([gpu("A", lost=True, quarantine="XID 79")], "node n1 is lost"),
        (
            [gpu("B", node="n2", quarantine="x"), gpu("A", lost=True)],
            "node n1 is lost; GPU B on n2 is in quarantine: x",
        ),
    ],
)
def test_what_is_wrong_with_an_allocation(held: list[HeldGpu], words: str) -> None:
    assert troubles(held) == words


def test_a_long_list_of_troubles_is_cut() -> None:
    assert len(troubles([gpu(f"S{n}", quarantine="XID 79") for n in range(64)])) <= 400
