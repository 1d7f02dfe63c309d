"""The life of a dead letter."""

from enum import StrEnum

from gpuaas.kit.life import Life, exits, minutes, terminal


class DeadLetterState(StrEnum):
    OPEN = "open"
    REPLAYING = "replaying"
    RESOLVED = "resolved"
    DISCARDED = "discarded"


S = DeadLetterState
LIFE = Life(
    {
        S.OPEN: exits(S.REPLAYING, S.DISCARDED, rests="for an operator, who is told by metric, alert and list"),
        S.REPLAYING: exits(S.RESOLVED, S.OPEN, deadline=minutes(5), on_deadline=S.OPEN),
        S.RESOLVED: terminal,
        S.DISCARDED: terminal,
    },
    of="dead_letters",
)
WAITING = frozenset({S.OPEN, S.REPLAYING})
