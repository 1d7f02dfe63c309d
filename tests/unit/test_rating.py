"""What a meter owes. The oracle knows no windows: it counts the quarter seconds in which the subject was usable."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuaas.domains.billing.meters.rating import (
    Billed,
    Span,
    charge,
    lasts_seconds,
    owed_micros,
    usable_seconds,
)

START = datetime(2026, 2, 27, 23, 59, 58, 750_000, tzinfo=UTC)
TICK = timedelta(milliseconds=250)
TICKS_PER_SECOND = 4
LONGEST = 900

ticks = st.integers(min_value=0, max_value=LONGEST)
rates = st.one_of(st.integers(0, 10), st.integers(0, 10**8), st.just(10**14))
pauses_of = st.lists(st.tuples(ticks, st.one_of(st.none(), ticks)), max_size=5)
# An instant at which somebody looks, in any order: clocks step. And what becomes of it: it is kept, or the program dies
# before its commit, or it is done twice.
looks = st.lists(st.tuples(st.integers(-200, 2 * LONGEST), st.sampled_from(["kept", "lost", "twice"])), max_size=12)


def at(tick: int) -> datetime:
    return START + tick * TICK


def price(rate: int, usable: set[int]) -> int:
    return int(Fraction(rate, 3600) * (len(usable) // TICKS_PER_SECOND))


@settings(max_examples=2_500, deadline=None)
@given(rate=rates, length=ticks, pauses=pauses_of, looks=looks, known=ticks)
def test_whatever_the_windows_a_closed_meter_was_charged_the_price_of_its_usable_seconds(
    rate: int,
    length: int,
    pauses: list[tuple[int, int | None]],
    looks: list[tuple[int, str]],
    known: int,
) -> None:
    usable = set(range(length))
    for begins, ends in pauses:
        usable -= set(range(begins, LONGEST + 1 if ends is None else ends))
    spans = [
        Span(at(begins), None if ends is None else at(ends))
        for begins, ends in pauses
        if ends is None or ends >= begins
    ]
    billed, posted = Billed(at(0)), []
    # The end and the pauses become known at some look, not before: what was charged by then may have been too much.
    for number, (now, fate) in enumerate([*looks, (length, "twice")]):
        heard = number >= known % (len(looks) + 1)
        for _ in range(2 if fate == "twice" else 1):
            next_one = charge(rate, at(0), at(length) if heard else None, spans if heard else [], billed, at(now))
            if fate != "lost":
                posted.append(next_one)
                billed = Billed(next_one.until_at, billed.seconds + next_one.seconds, billed.micros + next_one.micros)
    assert sum(one.micros for one in posted) == price(rate, usable)
    assert sum(one.seconds for one in posted) == len(usable) // TICKS_PER_SECOND
    assert all(one.from_at == before.until_at for before, one in pairwise(posted))


@settings(max_examples=500, deadline=None)
@given(rate=rates, instants=st.lists(ticks, min_size=2))
def test_while_a_meter_runs_nothing_is_given_back_however_the_clock_steps(rate: int, instants: list[int]) -> None:
    billed = Billed(at(0))
    for now in instants:
        one = charge(rate, at(0), None, [], billed, at(now))
        assert one.micros >= 0
        assert one.seconds >= 0
        billed = Billed(one.until_at, billed.seconds + one.seconds, billed.micros + one.micros)
    assert billed.micros == price(rate, set(range(max(instants))))


@pytest.mark.parametrize(
    ("rate", "seconds", "owed"),
    [
        (3_600, 1, 1),
        (3_599, 1, 0),
        (3_599, 3_600, 3_599),
        (2_500_000, 60, 41_666),
        (2_500_000, 3_600, 2_500_000),
        (0, 10_000, 0),
        (10**14, 10**9, 10**23 // 3_600),
    ],
)
def test_the_fraction_of_the_total_is_dropped(rate: int, seconds: int, owed: int) -> None:
    assert owed_micros(rate, seconds) == owed


def test_half_seconds_on_both_sides_of_a_pause_are_a_second() -> None:
    assert usable_seconds(at(0), at(12), [Span(at(2), at(10))]) == 1


def test_a_credit_is_due_when_the_end_lies_before_what_was_billed() -> None:
    billed = Billed(at(480), seconds=120, micros=120)
    credit = charge(3_600, at(0), at(240), [], billed, at(500))
    assert (credit.seconds, credit.micros) == (-60, -60)


@pytest.mark.parametrize(
    ("available", "burn", "seconds"), [(3_600, 1, 3_600 * 3_600), (5, 0, None), (-5, 10, 0), (10, 3_600, 10)]
)
def test_how_long_a_balance_lasts(available: int, burn: int, seconds: int | None) -> None:
    assert lasts_seconds(available, burn) == seconds
