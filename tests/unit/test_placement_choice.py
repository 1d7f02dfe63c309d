"""The choice of GPUs, as a table and as properties that hold of whatever is free."""

from collections import Counter
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuaas.domains.allocations.placement.choice import choose
from gpuaas.domains.allocations.placement.models import Ask, Candidate, Choice
from gpuaas.kit.ids import NodeId, SlotId
from tests.support.slot_yard import ask_of, sku

EIGHT = sku(gpus_per_node=8)


def node(number: int) -> NodeId:
    return NodeId(UUID(int=number))


def free(number: int, *indexes: int, per_group: int = 4, nvme: bool = True, fabric: bool = True) -> list[Candidate]:
    """GPUs that are free on a node."""
    return [
        Candidate(
            SlotId(UUID(int=number * 1000 + index)),
            node(number),
            f"n{number}",
            f"S{number}-{index}",
            index,
            index // per_group,
            nvme,
            fabric,
        )
        for index in indexes
    ]


def taken(choice: Choice | None, gpu_count: int) -> list[tuple[int, int]]:
    """(node, index) of each GPU."""
    assert choice is not None
    slots = [slot for room in choice.rooms for slot in room.slots[:gpu_count]]
    return [divmod(slot.int, 1000) for slot in slots]


ALL = tuple(range(8))
TABLE: dict[str, tuple[list[Candidate], tuple[int, int], list[tuple[int, int]] | None]] = {
    "one GPU where the fewest are free": ([*free(1, *ALL), *free(2, 5, 7)], (1, 1), [(2, 5)]),
    "of equal nodes the first": ([*free(2, 0, 1), *free(1, 0, 1)], (1, 1), [(1, 0)]),
    "in the fuller group of the node": (free(1, 0, 1, 2, 7), (1, 1), [(1, 7)]),
    "of equal groups the first": (free(1, 0, 4), (1, 1), [(1, 0)]),
    "two in one group": (free(1, 0, 4, 5), (2, 1), [(1, 4), (1, 5)]),
    "two that are in two groups do not fit": (free(1, 0, 4), (2, 1), None),
    "the tight group that fits, not the tighter one that does not": (
        free(1, 0, 1, 2, 4, 5, 7),
        (3, 1),
        [(1, 0), (1, 1), (1, 2)],
    ),
    "a node that is fuller but apart is passed": ([*free(1, 0, 4), *free(2, *ALL)], (2, 1), [(2, 0), (2, 1)]),
    "a whole node is the last one": ([*free(1, *ALL), *free(2, *ALL)], (8, 1), [(2, index) for index in ALL]),
    "seven are no whole node": (free(1, *ALL[:7]), (8, 1), None),
    "five never fit where four are a group": (free(1, *ALL), (5, 1), None),
    "two nodes": ([*free(1, 0), *free(2, 0, 1), *free(3, 0)], (1, 2), [(1, 0), (3, 0)]),
    "two nodes or none": (free(1, *ALL), (1, 2), None),
    "nothing is free": ([], (1, 1), None),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_tightest_room_is_chosen(case: str):
    candidates, (gpu_count, node_count), expected = TABLE[case]
    choice = choose(ask_of(EIGHT, gpu_count, node_count), candidates)
    assert (None if choice is None else taken(choice, gpu_count)) == expected


@pytest.mark.parametrize("missing", ["nvme", "fabric"])
def test_a_gpu_without_its_disk_or_fabric_is_none_where_the_sku_needs_it(missing: str):
    bare, whole = free(1, 0, **{missing: False}), free(2, 0, 1)
    needs = sku(needs_nvme=missing == "nvme", needs_fabric=missing == "fabric")
    assert taken(choose(ask_of(needs, 1), bare + whole), 1) == [(2, 0)]
    assert choose(ask_of(needs, 1), bare) is None
    assert taken(choose(ask_of(EIGHT, 1), bare + whole), 1) == [(1, 0)]


def test_dice_choose_among_equals_only():
    candidates = [*free(1, 0, 1), *free(2, 0, 1), *free(3, *ALL)]
    seen = {taken(choose(ask_of(EIGHT, 1), candidates, dice=Random(seed)), 1)[0][0] for seed in range(50)}
    assert seen == {1, 2}


def test_the_choice_explains_itself():
    choice = choose(ask_of(EIGHT, 2), [*free(1, 4, 5, 6), *free(2, *ALL)])
    assert choice is not None
    assert (
        choice.summary == "2 GPUs on n1, all in NUMA group 1: the fullest of 2 nodes with room, 3 GPUs of it were free."
    )
    whole = choose(ask_of(EIGHT, 8), free(1, *ALL))
    assert whole is not None
    assert whole.summary == "The whole node n1: all 8 GPUs of each were free."


FLEETS = st.dictionaries(st.integers(1, 12), st.frozensets(st.integers(0, 7)), max_size=12)


@st.composite
def questions(draw: st.DrawFn) -> tuple[Ask, list[Candidate]]:
    candidates = [one for number, indexes in draw(FLEETS).items() for one in free(number, *sorted(indexes))]
    shuffled = draw(st.permutations(candidates))
    return ask_of(EIGHT, draw(st.integers(1, 8)), draw(st.integers(1, 4))), list(shuffled)


def fits(ask: Ask, candidates: list[Candidate]) -> set[NodeId]:
    """Nodes with room, told in another way than the choice tells it."""
    groups = Counter((c.node_id, 0 if ask.whole else c.numa) for c in candidates)
    return {node_id for (node_id, _), count in groups.items() if count >= ask.gpu_count}


@settings(deadline=None, max_examples=300)
@given(questions())
def test_whatever_is_free_all_or_nothing_in_one_group_and_never_a_gpu_twice(question: tuple[Ask, list[Candidate]]):
    ask, candidates = question
    choice = choose(ask, candidates)
    assert (choice is not None) == (len(fits(ask, candidates)) >= ask.node_count)
    if choice is None:
        return
    by_slot = {candidate.slot_id: candidate for candidate in candidates}
    slots = [slot for room in choice.rooms for slot in room.slots[: ask.gpu_count]]
    assert len(slots) == len(set(slots)) == ask.gpus
    assert len({room.node_id for room in choice.rooms}) == ask.node_count
    for room in choice.rooms:
        chosen = [by_slot[slot] for slot in room.slots]
        assert {candidate.node_id for candidate in chosen} == {room.node_id}
        assert ask.whole or len({candidate.numa for candidate in chosen}) == 1


@settings(deadline=None, max_examples=300)
@given(questions())
def test_no_node_with_room_that_was_left_is_fuller_than_one_that_was_taken(question: tuple[Ask, list[Candidate]]):
    ask, candidates = question
    choice = choose(ask, candidates)
    if choice is None:
        return
    on_node = Counter(candidate.node_id for candidate in candidates)
    chosen = {room.node_id for room in choice.rooms}
    left = fits(ask, candidates) - chosen
    assert max(on_node[one] for one in chosen) <= min((on_node[one] for one in left), default=8)
