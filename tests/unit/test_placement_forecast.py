"""Who comes next, and when: pure, from what is free, what is held until when, and who waits."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from gpuaas.domains.allocations.placement.models import Group
from gpuaas.domains.allocations.queue.forecast import CLEANING, could_fit, starts
from gpuaas.domains.allocations.queue.models import Lease, Waiting
from gpuaas.domains.allocations.queue.order import in_order, out_of_patience
from gpuaas.domains.allocations.quotas.limits import Allowed, allocation_limits, gpu_limits, left, refusal
from gpuaas.domains.allocations.quotas.models import Used
from gpuaas.kit.ids import AllocationId, NodeId, OrgId

NOW = datetime(2026, 5, 4, 3, 2, tzinfo=UTC)
PATIENCE = timedelta(minutes=10)
HOUR = timedelta(hours=1)


def waits(
    number: int,
    *,
    org: int = 1,
    gpus: int = 1,
    nodes: int = 1,
    priority: int = 0,
    minutes: float = 0,
    used: float = 0.0,
    lease_hours: float = 1,
) -> Waiting:
    return Waiting(
        AllocationId(UUID(int=number)),
        OrgId(UUID(int=org)),
        gpus,
        nodes,
        priority,
        int(lease_hours * 3600),
        NOW - timedelta(minutes=minutes),
        used,
    )


def order(*waiting: Waiting) -> list[int]:
    return [entry.id.int for entry in in_order(waiting)]


# order ---------------------------------------------------------------------------------------------------------------
def test_more_priority_comes_first_whatever_the_share():
    assert order(waits(1, minutes=9), waits(2, priority=1, org=2, used=1e9)) == [2, 1]
    assert order(waits(1), waits(2, priority=-1, minutes=99)) == [1, 2]


def test_who_had_less_comes_before_who_has_waited_longer():
    assert order(waits(1, org=1, used=100.0, minutes=9), waits(2, org=2, used=50.0)) == [2, 1]


def test_of_equals_the_older_comes_first():
    assert order(waits(1, org=1, minutes=1), waits(2, org=2, minutes=2)) == [2, 1]


def test_organisations_take_turns_however_many_requests_one_sends():
    many = [waits(number, org=1, minutes=60 - number) for number in range(1, 5)]
    few = [waits(number, org=2, minutes=10 - number) for number in (8, 9)]
    assert order(*many, *few) == [1, 8, 2, 9, 3, 4]


def test_a_large_request_counts_for_more_of_a_turn():
    assert order(waits(1, org=1, gpus=8, minutes=9), waits(2, org=1, minutes=8), waits(3, org=2, gpus=4)) == [1, 3, 2]


@pytest.mark.parametrize(("minutes", "over"), [(0, False), (9.9, False), (10, True), (600, True)])
def test_patience_ends_when_its_minutes_are_over(minutes: float, over: bool):
    assert out_of_patience(waits(1, minutes=minutes), now=NOW, patience=PATIENCE) is over


# forecast ------------------------------------------------------------------------------------------------------------
def group(node: int, numa: int = 0, *, free: int = 0, built: int = 4) -> Group:
    return Group(NodeId(UUID(int=node)), numa, built, free)


def lease(node: int, hours: float, gpus: int = 4, numa: int = 0, state: str = "active") -> Lease:
    return Lease(NodeId(UUID(int=node)), numa, gpus, state, NOW + hours * HOUR)


def start(line: list[Waiting], groups: list[Group], leases: list[Lease]) -> dict[int, float | None]:
    """By request: in how many hours, cleaning left out."""
    found = starts(line, groups, leases, gpus_per_node=8, now=NOW, patience=PATIENCE)
    return {
        entry.id.int: (None if entry.id not in found else (max(found[entry.id] - NOW - CLEANING, timedelta())) / HOUR)
        for entry in line
    }


def test_what_fits_starts_now():
    assert start([waits(1, gpus=2)], [group(1, free=2)], []) == {1: 0}


def test_what_does_not_fit_starts_when_the_lease_ends_that_makes_room():
    groups = [group(1), group(2)]
    assert start([waits(1, gpus=4)], groups, [lease(1, 5), lease(2, 3)]) == {1: 3}
    assert start([waits(1, gpus=4)], groups, [lease(1, 5, gpus=2), lease(1, 1, gpus=2)]) == {1: 5}


def test_a_whole_node_waits_for_both_of_its_groups():
    assert start([waits(1, gpus=8)], [group(1, 0), group(1, 1)], [lease(1, 1), lease(1, 2, numa=1)]) == {1: 2}


def test_several_nodes_wait_for_the_last_of_them():
    assert start([waits(1, gpus=4, nodes=2)], [group(1), group(2)], [lease(1, 1), lease(2, 4)]) == {1: 4}


def test_those_ahead_are_served_first_and_end_in_their_time():
    line = [waits(1, gpus=4, lease_hours=2), waits(2, gpus=4)]
    told = start(line, [group(1)], [lease(1, 1)])
    assert told[1] == 1
    assert told[2] == pytest.approx(3, abs=0.1)


def test_a_small_one_passes_a_large_one_that_is_patient_and_none_that_is_not():
    groups, leases = [group(1, free=1), group(1, 1)], [lease(1, 1, gpus=3), lease(1, 1, numa=1)]
    patient, small = waits(1, gpus=4, minutes=1), waits(2)
    assert start([patient, small], groups, leases)[2] == 0
    tired = waits(1, gpus=8, minutes=11)
    assert start([tired, small], groups, leases) == {1: 1, 2: pytest.approx(2, abs=0.1)}


def test_what_no_end_makes_room_for_cannot_be_told():
    assert start([waits(1, gpus=4)], [group(1)], []) == {1: None}
    assert start([waits(1, gpus=4)], [group(1)], [lease(1, 1, state="release_failed")]) == {1: None}
    assert start([waits(1, gpus=4)], [group(1)], [lease(2, 1)]) == {1: None}  # a node that is not sold from
    assert start([waits(1, gpus=5)], [group(1), group(1, 1)], [lease(1, 1), lease(1, 1, numa=1)]) == {1: None}


def test_a_lease_that_should_have_ended_ends_soon():
    assert start([waits(1, gpus=4)], [group(1)], [lease(1, -3, state="releasing")]) == {1: 0}


def test_only_who_could_be_served_on_empty_nodes_is_waited_for():
    groups = [group(1, 0), group(1, 1), group(2, 0)]
    fitting = {(4, 1): True, (8, 1): True, (4, 2): True, (8, 2): False, (5, 1): False, (4, 3): False}
    for (gpus, nodes), could in fitting.items():
        assert could_fit(groups, waits(1, gpus=gpus, nodes=nodes), gpus_per_node=8) is could


# quotas --------------------------------------------------------------------------------------------------------------
def used(**changed: int | None) -> Used:
    row: dict[str, int | None] = {
        "org_gpus": 10,
        "project_gpus": 4,
        "org_allocations": 3,
        "project_allocations": 2,
        "org_limit": None,
        "project_limit": None,
    }
    return Used(**(row | changed))  # type: ignore[arg-type] # the limits alone may be absent


POLICY = Allowed(org_gpus=16, project_gpus=16, org_allocations=5, project_allocations=5)
QUOTAS = [
    (used(), POLICY, 6, True),
    (used(), POLICY, 7, False),
    (used(org_limit=12), POLICY, 2, True),
    (used(org_limit=12), POLICY, 3, False),
    (used(org_limit=100), POLICY, 90, True),  # the project's is the organisation's where nothing else was said
    (used(org_limit=100, project_limit=5), POLICY, 1, True),
    (used(org_limit=100, project_limit=5), POLICY, 2, False),
    (used(org_limit=100), POLICY._replace(project_gpus=8), 5, False),
    (used(org_limit=0), POLICY, 1, False),
]


@pytest.mark.parametrize(("has", "allowed", "asked", "within"), QUOTAS)
def test_a_request_stays_within_both_quotas_or_is_told_the_numbers(
    has: Used, allowed: Allowed, asked: int, within: bool
):
    limits = gpu_limits(has, allowed, "H200")
    told = refusal(limits, asked)
    assert (told is None) is within
    assert (asked <= left(limits)) is within
    if told is not None:
        assert f"asks for {asked} more" in told
        assert "operator" in told


def test_allocations_are_counted_as_well():
    assert refusal(allocation_limits(used(), POLICY), 1) is None
    told = refusal(allocation_limits(used(org_allocations=5), POLICY), 1)
    assert told is not None
    assert told.startswith("The organisation has 5 of the 5 allocations it may have at once")
