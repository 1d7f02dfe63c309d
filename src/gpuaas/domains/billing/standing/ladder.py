"""The ladder: on which rung an organisation stands next, given its money. Pure: a function of values.

Always holds: money leads back from any rung at once; down, each rung is entered from the one before, and lasts for as
long as its rule says from the moment it is entered, whatever the clock did; nothing is counted while nothing runs."""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from gpuaas.contracts.http.standing import Rung
from gpuaas.domains.billing.meters.rating import lasts_seconds
from gpuaas.domains.billing.standing.models import Facts
from gpuaas.domains.billing.standing.states import SPENT

HALF, TENTH = 1, 2
FARTHEST_SECONDS = 100 * 365 * 86_400
NEXT = {Rung.EMPTY: Rung.STOPPED, Rung.STOPPED: Rung.RELEASED}


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy says of one organisation."""

    low_seconds: int
    """With less than this left, it is told that the balance is low."""
    stop: timedelta
    grace: timedelta

    def lasts(self, rung: Rung) -> timedelta | None:
        return {Rung.EMPTY: self.stop, Rung.STOPPED: self.grace}.get(rung)


class Tell(StrEnum):
    MOVE = "move"
    COUNTDOWN = "countdown"
    NOTHING = "nothing"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What a standing becomes, and what is told of it."""

    rung: Rung
    due_at: datetime | None
    counting_since: datetime | None
    told: int
    entered_micros: int
    tell: Tell


def decide(facts: Facts, rules: Rules) -> Step | None:
    """None: all stays as it is."""
    rung = next_rung(facts, rules)
    if rung is not facts.rung:
        due_at = _from_now(facts, rules.lasts(rung))
        return Step(
            rung=rung,
            due_at=due_at,
            counting_since=None if due_at is None else facts.now,
            told=0,
            entered_micros=facts.spendable_micros,
            tell=Tell.MOVE,
        )
    step = _counted(facts, rules.lasts(rung))
    same = (facts.due_at, facts.counting_since, facts.told) == (step.due_at, step.counting_since, step.told)
    return None if same else step


def next_rung(facts: Facts, rules: Rules) -> Rung:
    if not _spent(facts):
        return Rung.LOW if _low(facts, rules) else Rung.GOOD
    if facts.rung not in SPENT:
        return Rung.EMPTY
    over = facts.due_at is not None and facts.due_at <= facts.now
    return NEXT[facts.rung] if over and facts.running and not facts.paused else facts.rung


def runway_seconds(facts: Facts) -> int | None:
    """For how long it lasts at what runs now."""
    return _lasts(facts.spendable_micros, facts.burn_micros_per_hour)


def _spent(facts: Facts) -> bool:
    """Who has nothing and uses nothing that costs is not told of it before he was told that it is low."""
    if facts.spendable_micros == 0 and facts.rung is Rung.GOOD:
        return facts.burn_micros_per_hour > 0
    return facts.spendable_micros <= 0


def _low(facts: Facts, rules: Rules) -> bool:
    """Back to good only with a quarter more than what made it low, so that it is not told at every change of the burn;
    and while nothing burns, only with more money."""
    will_burn = facts.open_micros_per_hour if facts.rung in SPENT else 0  # what was stopped runs again then
    burn = facts.burn_micros_per_hour or will_burn
    seconds = _lasts(facts.spendable_micros, burn)
    if seconds is None:
        return facts.rung is Rung.LOW and facts.spendable_micros <= facts.entered_micros
    if facts.rung is Rung.LOW:
        return seconds * 4 < rules.low_seconds * 5
    return seconds < rules.low_seconds


def _counted(facts: Facts, length: timedelta | None) -> Step:
    """The same rung: how far its countdown is."""
    due_at = _kept(facts, length)
    since, told, tell = facts.counting_since, facts.told, Tell.NOTHING
    if due_at is None:
        since, told = None, 0
    elif since is None or facts.due_at is None:
        since, told, tell = facts.now, 0, Tell.COUNTDOWN
    else:
        since = min(since, facts.now)
        reached = _reached(due_at - facts.now, due_at - since)
        if reached > told:
            told, tell = reached, Tell.COUNTDOWN
    return Step(
        rung=facts.rung,
        due_at=due_at,
        counting_since=since,
        told=told,
        entered_micros=facts.entered_micros,
        tell=tell,
    )


def _from_now(facts: Facts, length: timedelta | None) -> datetime | None:
    if length is None or not facts.running:
        return None
    return _unpaused(facts, facts.now + length)


def _kept(facts: Facts, length: timedelta | None) -> datetime | None:
    """As it was told; but never later than the length from now: a clock stepped back, or a policy became shorter."""
    if length is None or not facts.running or facts.due_at is None:
        return _from_now(facts, length)
    return _unpaused(facts, min(facts.due_at, facts.now + length))


def _unpaused(facts: Facts, due_at: datetime) -> datetime:
    """Not while an operator has paused the ladder."""
    return due_at if facts.paused_until is None else max(due_at, facts.paused_until)


def _reached(left: timedelta, total: timedelta) -> int:
    if left * 10 <= total:
        return TENTH
    return HALF if left * 2 <= total else 0


def _lasts(spendable_micros: int, burn_micros_per_hour: int) -> int | None:
    seconds = lasts_seconds(spendable_micros, burn_micros_per_hour)
    return None if seconds is None else min(seconds, FARTHEST_SECONDS)
