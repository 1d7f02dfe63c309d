"""What a node's agent observes against the books: a table."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from gpuaas.contracts.http.allocations import AllocationState as S
from gpuaas.domains.allocations.models import login_of
from gpuaas.domains.allocations.reality.compare import MARGIN, Booked, Observed, born_with, compare
from gpuaas.kit.ids import new_id

NODE, NOW = new_id(), datetime(2026, 7, 1, 12, tzinfo=UTC)
MINE, OTHER, NOBODY = new_id(), new_id(), new_id()
LONG_AGO = NOW - timedelta(hours=1)
A, L, MA, ML = "account", "lease", "missing_account", "missing_lease"


def booked(of: UUID, state: S, serials: str = "S1", changed_at: datetime = LONG_AGO) -> Booked:
    return Booked(allocation_id=of, state=state, changed_at=changed_at, serials=serials.split())


def seen(accounts: list[UUID], leases: dict[UUID, str]) -> Observed:
    return Observed(
        node_id=NODE,
        seen_at=NOW,
        accounts=[login_of(one) for one in accounts],
        leases={one: serials.split() for one, serials in leases.items()},
    )


CASES: dict[str, tuple[Observed, list[Booked], list[tuple[str, UUID]]]] = {
    "an empty node and empty books": (seen([], {}), [], []),
    "an active one that has all": (seen([MINE], {MINE: "S1"}), [booked(MINE, S.ACTIVE)], []),
    "two side by side": (
        seen([MINE, OTHER], {MINE: "S1", OTHER: "S2"}),
        [booked(MINE, S.ACTIVE), booked(OTHER, S.ACTIVE, "S2")],
        [],
    ),
    "an account of nobody": (seen([NOBODY], {}), [], [(A, NOBODY)]),
    "a lease of nobody": (seen([], {NOBODY: "S1"}), [], [(L, NOBODY)]),
    "a released one whose account stayed": (seen([MINE], {}), [booked(MINE, S.RELEASED, "")], [(A, MINE)]),
    "a failed one whose lease stayed": (seen([], {MINE: "S1"}), [booked(MINE, S.FAILED, "")], [(L, MINE)]),
    "a queued one that has an account": (seen([MINE], {}), [booked(MINE, S.REQUESTED, "")], [(A, MINE)]),
    "one that is active on another node": (seen([MINE], {}), [booked(MINE, S.ACTIVE, "")], [(A, MINE)]),
    "an active one without an account": (seen([], {MINE: "S1"}), [booked(MINE, S.ACTIVE)], [(MA, MINE)]),
    "an active one without a lease": (seen([MINE], {}), [booked(MINE, S.ACTIVE)], [(ML, MINE)]),
    "an active one with half of its lease": (
        seen([MINE], {MINE: "S1"}),
        [booked(MINE, S.ACTIVE, "S1 S2")],
        [(ML, MINE)],
    ),
    "an active one that has leased too much": (
        seen([MINE], {MINE: "S1 S2"}),
        [booked(MINE, S.ACTIVE, "S1")],
        [(L, MINE)],
    ),
    "an active one that has nothing": (seen([], {}), [booked(MINE, S.ACTIVE)], [(MA, MINE), (ML, MINE)]),
    **{
        f"one that is {state} may have it or not: {how}": (held, [booked(MINE, state)], [])
        for state in (S.PROVISIONING, S.RELEASING, S.RELEASE_FAILED)
        for how, held in {
            "all": seen([MINE], {MINE: "S1"}),
            "nothing": seen([], {}),
            "half": seen([MINE], {}),
        }.items()
    },
    "one that was released just now": (
        seen([MINE], {MINE: "S1"}),
        [booked(MINE, S.RELEASED, "", NOW - MARGIN / 2)],
        [],
    ),
    "one that became active just now": (seen([], {}), [booked(MINE, S.ACTIVE, "S1", NOW - MARGIN / 2)], []),
    "one that became active after the node was heard": (
        seen([], {}),
        [booked(MINE, S.ACTIVE, "S1", NOW + timedelta(seconds=1))],
        [],
    ),
    "a margin is enough": (seen([], {}), [booked(MINE, S.ACTIVE, "S1", NOW - MARGIN)], [(MA, MINE), (ML, MINE)]),
    "another's change hides nothing": (
        seen([NOBODY, MINE], {MINE: "S1"}),
        [booked(MINE, S.ACTIVE, "S1", NOW)],
        [(A, NOBODY)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_only_what_the_books_do_not_say_is_a_difference(case: str) -> None:
    observed, books, wanted = CASES[case]
    found = compare(observed, books)
    names: list[Any] = [
        (kind, login_of(of) if kind in (A, MA) else str(of)) for kind, of in sorted(wanted, key=lambda one: one[0])
    ]
    assert sorted((one.kind.value, one.name) for one in found) == sorted(names)
    assert {one.node_id for one in found} <= {NODE}
    assert all(one.detail for one in found)


@pytest.mark.parametrize(
    ("counted", "charged", "differs"),
    [
        (3_300, 3_600, False),
        (3_299, 3_600, True),
        (0, 300, False),
        (950_000, 1_000_000, False),
        (949_999, 1_000_000, True),
    ],
)
def test_a_node_that_counted_clearly_less_than_is_charged_is_a_difference(
    counted: int, charged: int, differs: bool
) -> None:
    """What is missing in its agent's restarts is none; nor that it counted more: nothing more is charged for that."""
    for said, wanted in ((counted, differs), (2 * charged, False)):
        observed = replace(seen([MINE], {MINE: "S1"}), usage={MINE: said})
        books = [replace(booked(MINE, S.ACTIVE), charged_seconds=charged)]
        assert [one.kind.value for one in compare(observed, books)] == (["usage"] if wanted else [])
    silent = seen([MINE], {MINE: "S1"})  # an agent that does not count says nothing
    assert compare(silent, [replace(booked(MINE, S.ACTIVE), charged_seconds=charged)]) == []


def test_what_is_known_of_an_orphan_is_said() -> None:
    of_mine, of_nobody = compare(seen([MINE, NOBODY], {}), [booked(MINE, S.RELEASED, "")])
    assert (of_mine.allocation_id, of_nobody.allocation_id) == (MINE, None)
    assert "released" in of_mine.detail


def test_an_account_leads_to_the_ids_its_allocation_can_have() -> None:
    for _ in range(100):
        allocation_id = new_id()
        found = born_with(login_of(allocation_id))
        assert found is not None
        assert found[0] <= allocation_id <= found[1]
    assert born_with("root") is None
    assert born_with("gabc") is None
