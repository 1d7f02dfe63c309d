"""The ladder. `due_at` is the moment of the next rung, by policy; the deadlines here are the longest there may be."""

from datetime import timedelta

from gpuaas.contracts.http.standing import Rung
from gpuaas.kit.life import Life, exits

LONGEST_STOP = timedelta(days=30)
LONGEST_GRACE = timedelta(days=90)

S = Rung
LIFE = Life(
    {
        S.GOOD: exits(S.LOW, S.EMPTY, rests="there is money"),
        S.LOW: exits(S.GOOD, S.EMPTY, rests="there is money yet: it ends, or more comes"),
        S.EMPTY: exits(S.GOOD, S.LOW, S.STOPPED, deadline=LONGEST_STOP, on_deadline=S.STOPPED),
        S.STOPPED: exits(S.GOOD, S.LOW, S.RELEASED, deadline=LONGEST_GRACE, on_deadline=S.RELEASED),
        S.RELEASED: exits(S.GOOD, S.LOW, rests="nothing is left to take away; money leads back"),
    },
    of="standings",
)
SPENT = frozenset({S.EMPTY, S.STOPPED, S.RELEASED})
"""Nothing new begins."""
