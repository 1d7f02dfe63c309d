"""Why nothing fits, in words: the reason that weighs most, and what would help."""

from datetime import UTC, datetime

import pytest

from gpuaas.domains.allocations.placement.explaining import explain
from gpuaas.domains.allocations.placement.models import Reason
from tests.support.slot_yard import ask_of, sku

H200 = sku(name="h200-8")
SOON = datetime(2026, 5, 4, 3, 2, tzinfo=UTC)
R = Reason
TABLE = [
    ({}, 0, R.ABSENT),
    ({R.HELD: 8}, 9, R.HELD),
    ({R.HELD: 8, R.CORDONED: 8}, 9, R.HELD),
    ({R.HELD: 8, R.CORDONED: 16}, 9, R.CORDONED),
    ({R.HELD: 80, R.FRAGMENTED: 8}, 9, R.FRAGMENTED),
    ({R.HELD: 80, R.FRAGMENTED: 7}, 9, R.HELD),
    ({R.HELD: 80}, 0, R.TOO_LARGE),
    *(({reason: 8}, 9, reason) for reason in R if reason not in {R.ABSENT, R.TOO_LARGE}),
]


@pytest.mark.parametrize(("counts", "large_enough", "dominant"), TABLE)
def test_the_reason_that_weighs_most_is_told_with_what_would_help(
    counts: dict[Reason, int], large_enough: int, dominant: Reason
):
    told = explain(ask_of(H200, 8), counts, nodes_large_enough=large_enough, earliest_end=SOON)
    assert told.dominant is dominant
    assert told.counts == counts
    assert "h200-8" in told.summary
    assert told.summary.count(".") >= 2  # the reason, and the advice
    assert len(told.summary) < 450  # it goes into an error's message


def test_what_is_full_says_when_it_may_not_be():
    told = explain(ask_of(H200, 1, 2), {R.HELD: 8}, nodes_large_enough=2, earliest_end=SOON)
    assert told.summary == (
        "1 GPU on each of 2 nodes of h200-8 cannot be had now: of 8, 8 in use. Wait in the queue, ask for fewer, or "
        "choose another SKU. The first lease ends at 2026-05-04 03:02 UTC, unless renewed."
    )


def test_what_can_never_fit_is_not_told_to_wait():
    told = explain(ask_of(H200, 6), {R.HELD: 8}, nodes_large_enough=0, earliest_end=SOON)
    assert told.summary == (
        "6 GPUs in one NUMA group cannot be had of h200-8: no node could hold that. "
        "Ask for it with fewer GPUs on each node."
    )
