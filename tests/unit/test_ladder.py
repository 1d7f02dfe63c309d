"""The ladder as a function of values: tables for its edges, random histories of money and time against an oracle."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuaas.contracts.http.standing import Rung
from gpuaas.domains.billing.standing.ladder import Rules, Step, Tell, decide
from gpuaas.domains.billing.standing.models import Facts
from gpuaas.domains.billing.standing.states import LIFE, SPENT
from gpuaas.domains.billing.standing.wording import advice, refused
from gpuaas.kit.ids import OrgId, new_id

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3_600
RULES = Rules(low_seconds=24 * HOUR, stop=timedelta(minutes=15), grace=timedelta(hours=24))
ORDER = list(Rung)
RATE = HOUR
"""A micro-unit each second, so that what can be spent is how many seconds it lasts."""


def facts(**changed: Any) -> Facts:
    fields: dict[str, Any] = {
        "org_id": OrgId(new_id()),
        "currency": "USD",
        "rung": Rung.GOOD,
        "since": None,
        "due_at": None,
        "counting_since": None,
        "told": 0,
        "entered_micros": 0,
        "paused_until": None,
        "now": NOW,
        "balance_micros": 0,
        "floor_micros": 0,
        "unposted_micros": 0,
        "burn_micros_per_hour": RATE,
        "open_micros_per_hour": RATE,
        "running": 1,
    }
    return Facts(**(fields | changed))


def rung_of(**changed: Any) -> Rung:
    known = facts(**changed)
    step = decide(known, RULES)
    return known.rung if step is None else step.rung


@pytest.mark.parametrize(
    ("seconds", "rung", "becomes"),
    [
        (24 * HOUR, Rung.GOOD, Rung.GOOD),
        (24 * HOUR - 1, Rung.GOOD, Rung.LOW),
        (30 * HOUR - 1, Rung.LOW, Rung.LOW),
        (30 * HOUR, Rung.LOW, Rung.GOOD),
        (1, Rung.LOW, Rung.LOW),
        (0, Rung.LOW, Rung.EMPTY),
        (0, Rung.GOOD, Rung.EMPTY),
        (-1, Rung.GOOD, Rung.EMPTY),
        (1, Rung.EMPTY, Rung.LOW),
        (1, Rung.STOPPED, Rung.LOW),
        (1, Rung.RELEASED, Rung.LOW),
        (24 * HOUR, Rung.EMPTY, Rung.GOOD),
        (24 * HOUR, Rung.RELEASED, Rung.GOOD),
        (0, Rung.STOPPED, Rung.STOPPED),
    ],
)
def test_how_long_the_money_lasts_says_the_rung(seconds: int, rung: Rung, becomes: Rung):
    assert rung_of(rung=rung, balance_micros=seconds) is becomes


def test_who_has_nothing_and_uses_nothing_is_good():
    assert rung_of(burn_micros_per_hour=0, open_micros_per_hour=0, running=0) is Rung.GOOD
    assert rung_of(burn_micros_per_hour=0, open_micros_per_hour=0, running=0, balance_micros=-1) is Rung.EMPTY


def test_what_is_free_empties_nobody():
    assert rung_of(burn_micros_per_hour=0, open_micros_per_hour=0, running=0) is Rung.GOOD


def test_after_a_stop_what_stands_still_counts_as_what_it_will_cost():
    """Otherwise a cent would lead to good, and to low a second later."""
    assert rung_of(rung=Rung.STOPPED, balance_micros=60, burn_micros_per_hour=0) is Rung.LOW


def test_a_line_of_credit_and_what_is_not_charged_yet_count():
    assert rung_of(balance_micros=-5, floor_micros=-30 * HOUR) is Rung.GOOD
    assert rung_of(balance_micros=30 * HOUR, unposted_micros=30 * HOUR) is Rung.EMPTY


@pytest.mark.parametrize("rung", [Rung.EMPTY, Rung.STOPPED])
def test_a_rung_lasts_to_the_second_from_when_it_is_entered(rung: Rung):
    before = facts(rung=rung, due_at=NOW + timedelta(seconds=1), counting_since=NOW - timedelta(minutes=1))
    over = msgspec.structs.replace(before, now=NOW + timedelta(days=300))
    step = decide(over, RULES)
    assert step is not None
    assert (ORDER.index(step.rung), step.tell) == (ORDER.index(rung) + 1, Tell.MOVE)
    assert step.due_at == (over.now + RULES.grace if step.rung is Rung.STOPPED else None)
    kept = decide(before, RULES)
    assert kept is None or kept.rung is rung


def test_of_a_countdown_its_half_and_its_last_tenth_are_told_once_each():
    step: Step | None = decide(facts(), RULES)
    assert step is not None
    told, known = [], facts()
    for second in range(0, 900, 5):
        known = facts(
            rung=step.rung,
            due_at=step.due_at,
            counting_since=step.counting_since,
            told=step.told,
            now=NOW + timedelta(seconds=second),
        )
        following = decide(known, RULES)
        if following is not None:
            step = following
            told.append((second, following.tell))
    assert told == [(450, Tell.COUNTDOWN), (810, Tell.COUNTDOWN)]


def test_a_pause_moves_the_end_and_its_end_brings_it_back():
    counting = {"rung": Rung.EMPTY, "due_at": NOW + timedelta(minutes=1), "counting_since": NOW - timedelta(minutes=14)}
    paused = decide(facts(**counting, told=2, paused_until=NOW + timedelta(days=3)), RULES)
    assert paused is not None
    assert paused.due_at == NOW + timedelta(days=3)
    counting["due_at"] = paused.due_at
    again = decide(facts(**counting, told=2), RULES)
    assert again is not None
    assert again.due_at == NOW + RULES.stop


def test_every_rung_says_what_to_do():
    for rung in Rung:
        for due_at in (None, NOW):
            assert advice(facts(rung=rung, due_at=due_at)).endswith(".")
    assert all("Top it up" in refused(rung) for rung in SPENT)


# Histories -----------------------------------------------------------------------------------------------------------
class Oracle:
    """The ladder once more, as a story: it remembers what happened instead of being told what it was."""

    def __init__(self) -> None:
        self.rung, self.counted, self.entered = Rung.GOOD, 0.0, 0

    def look(self, seconds: int, money: int, burn: int, open_burn: int, running: bool) -> Rung:
        """After so many seconds."""
        down = self.rung in SPENT
        if money > 0:
            lasting = open_burn if down and not burn else burn
            if lasting:
                limit = 30 if self.rung is Rung.LOW else 24
                self._go(Rung.LOW if money // lasting < limit * HOUR else Rung.GOOD, money)
            else:
                more = self.rung is not Rung.LOW or money > self.entered
                self._go(Rung.GOOD if more else Rung.LOW, money)
        elif not down:
            if money < 0 or burn or self.rung is Rung.LOW:
                self._go(Rung.EMPTY, money)
                self.counted = 0 if running else -1
        else:
            wait = {Rung.EMPTY: 900, Rung.STOPPED: 86_400}.get(self.rung)
            if not running:
                self.counted = -1
            elif self.counted < 0:
                self.counted = 0
            else:
                self.counted += seconds
            if wait is not None and running and self.counted >= wait:
                self._go(Rung.STOPPED if self.rung is Rung.EMPTY else Rung.RELEASED, money)
                self.counted = 0
        return self.rung

    def _go(self, rung: Rung, money: int) -> None:
        if rung is not self.rung:
            self.rung, self.entered, self.counted = rung, money, 0


_LOOKS = st.lists(
    st.tuples(
        st.sampled_from([1, 5, 5, 300, 450, 899, 900, 40_000, 86_400, 10**6]),  # seconds until the look
        st.one_of(st.just(0), st.integers(-3, 3), st.integers(-40 * HOUR, 40 * HOUR), st.integers(0, 10**9)),  # money
        st.integers(0, 3),  # meters that run
        st.integers(0, 2),  # meters that stand still
    ),
    max_size=40,
)


@settings(max_examples=1_500, deadline=None)
@given(_LOOKS)
def test_every_history_of_money_and_time_goes_as_the_oracle_says(looks: list[tuple[int, int, int, int]]):
    oracle, known, now = Oracle(), facts(), NOW
    for seconds, money, running, still in looks:
        now += timedelta(seconds=seconds)
        known = msgspec.structs.replace(
            known,
            now=now,
            balance_micros=money,
            burn_micros_per_hour=running * RATE,
            open_micros_per_hour=(running + still) * RATE,
            running=running + still,
        )
        step = decide(known, RULES)
        was, known = known, _applied(known, step)
        assert known.rung is oracle.look(seconds, money, running, running + still, running + still > 0)
        _holds(was, known, step)


def _applied(known: Facts, step: Step | None) -> Facts:
    if step is None:
        return known
    return msgspec.structs.replace(
        known,
        rung=step.rung,
        due_at=step.due_at,
        counting_since=step.counting_since,
        told=step.told,
        entered_micros=step.entered_micros,
    )


def _holds(was: Facts, known: Facts, step: Step | None) -> None:
    assert known.rung is was.rung or known.rung in LIFE.table[was.rung].to
    assert (known.spendable_micros <= 0) or known.rung not in SPENT
    assert (known.due_at is None) == (known.counting_since is None)
    assert known.due_at is None or (known.rung in (Rung.EMPTY, Rung.STOPPED) and known.running)
    assert decide(known, RULES) is None, "looked at twice at one instant, nothing more happens"
    if step is not None and step.tell is Tell.COUNTDOWN:
        assert known.due_at is not None
        assert known.due_at > known.now


@settings(max_examples=500, deadline=None)
@given(_LOOKS, st.lists(st.integers(-(10**6), 10**6), max_size=40))
def test_whatever_the_clock_does_no_rung_is_skipped_and_money_leads_back(
    looks: list[tuple[int, int, int, int]], leaps: list[int]
):
    known, now = facts(), NOW
    for (seconds, money, running, still), leap in zip(looks, leaps, strict=False):
        now += timedelta(seconds=seconds + leap)
        known = msgspec.structs.replace(
            known,
            now=now,
            balance_micros=money,
            burn_micros_per_hour=running * RATE,
            open_micros_per_hour=(running + still) * RATE,
            running=running + still,
        )
        step = decide(known, RULES)
        was, known = known, _applied(known, step)
        if step is not None and step.rung in (Rung.STOPPED, Rung.RELEASED) and step.rung is not was.rung:
            assert ORDER.index(step.rung) == ORDER.index(was.rung) + 1
        assert known.due_at is None or known.due_at - now <= max(RULES.stop, RULES.grace)
        assert (known.spendable_micros <= 0) or known.rung not in SPENT
