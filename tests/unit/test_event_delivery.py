"""When a delivery is tried again, when an event counts as lost, how far a consumer is complete, why one failed."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from gpuaas.domains.outbox.backoff import retry_seconds
from gpuaas.domains.outbox.handlers import complete_through
from gpuaas.domains.outbox.horizon import SKEW, Standing, arrived_by, born_at
from gpuaas.domains.outbox.models import Survey
from gpuaas.domains.outbox.service import MAX_REASON, reason_text
from gpuaas.domains.outbox.states import LIFE
from gpuaas.domains.outbox.states import DeadLetterState as S
from gpuaas.kit.errors import Unavailable
from gpuaas.kit.ids import EventId, floor_id, new_id
from gpuaas.kit.life import Life, exits, minutes, terminal

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("attempts", "dice", "seconds"),
    [
        (0, 0.0, 0.25),
        (1, 0.0, 0.25),
        (1, 1.0, 0.5),
        (2, 1.0, 1.0),
        (5, 1.0, 8.0),
        (8, 1.0, 60.0),
        (8, 0.0, 30.0),
        (10_000, 1.0, 60.0),
    ],
)
def test_retries_double_up_to_a_minute_and_are_spread(attempts: int, dice: float, seconds: float) -> None:
    assert retry_seconds(attempts, dice) == seconds


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        (Standing(0, None, None), NOW - SKEW),
        (Standing(0, NOW - HOUR, NOW - HOUR), NOW - SKEW),
        (Standing(5, None, None), None),
        (Standing(5, NOW - HOUR, None), NOW - HOUR - SKEW),
        (Standing(5, NOW - 2 * HOUR, NOW - HOUR), NOW - HOUR - SKEW),
    ],
)
def test_lost_is_what_was_published_before_all_that_was_acknowledged_or_kept(
    standing: Standing, expected: datetime | None
) -> None:
    assert arrived_by(standing, NOW) == expected


def test_the_birth_of_an_id_is_in_it() -> None:
    assert born_at(floor_id(NOW)) == NOW


def test_a_consumer_is_complete_up_to_the_first_event_it_lacks() -> None:
    first, second, before = (EventId(new_id()) for _ in range(3))
    assert complete_through(Survey(second, False, [first]), before) == UUID(int=first.int - 1)
    assert complete_through(Survey(second, False, []), before) == second
    assert complete_through(Survey(second, True, []), before) == UUID(int=before.int - 1)
    assert complete_through(Survey(None, True, []), before) == UUID(int=before.int - 1)


def test_a_reason_is_scrubbed_and_bounded() -> None:
    assert len(reason_text(RuntimeError("x" * 10_000))) <= MAX_REASON
    said = reason_text(Unavailable("c", "try again", log="GET https://user:pa55@host Bearer abcdefghijklmn\n"))
    assert said.startswith("Unavailable: try again GET https://")
    assert "pa55" not in said
    assert "abcdefgh" not in said
    assert "\n" not in said


def test_every_state_of_a_dead_letter_ends_or_waits_for_somebody_named() -> None:
    assert set(LIFE.table) == set(S)
    for state, row in LIFE.table.items():
        assert row is terminal or row.deadline is not None or row.rests, state
    assert LIFE.sources(S.OPEN) == [S.REPLAYING]
    assert LIFE.deadlines() == {S.REPLAYING: (minutes(5), S.OPEN)}


@pytest.mark.parametrize(
    "wrong",
    [
        {S.OPEN: exits(S.RESOLVED, rests="x")},
        {S.OPEN: exits(S.OPEN)},
        {S.OPEN: exits(S.OPEN, deadline=minutes(1))},
        {S.OPEN: exits(S.OPEN, deadline=minutes(1), on_deadline=S.RESOLVED), S.RESOLVED: terminal},
    ],
)
def test_a_life_that_leads_nowhere_is_refused(wrong: dict[S, object]) -> None:
    with pytest.raises(ValueError, match=r"leads|deadline|for ever"):
        Life(wrong)  # type: ignore[arg-type] # a wrong table is the point
