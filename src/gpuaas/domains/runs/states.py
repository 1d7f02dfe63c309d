"""The life of a run. Upper bounds: each step has a deadline of its own, kept in `due_at`."""

from gpuaas.contracts.http.flows import FlowState
from gpuaas.kit.life import Life, exits, minutes, terminal

S = FlowState
LIFE = Life(
    {
        S.FORWARD: exits(S.DONE, S.UNDOING, S.SURRENDERED, deadline=minutes(24 * 60), on_deadline=S.UNDOING),
        S.UNDOING: exits(S.UNDONE, S.SURRENDERED, deadline=minutes(24 * 60), on_deadline=S.SURRENDERED),
        S.DONE: terminal,
        S.UNDONE: terminal,
        S.SURRENDERED: exits(S.UNDOING, rests="an operator may have the undoing tried again"),
    },
    of="flow_runs",
)
OPEN = frozenset({S.FORWARD, S.UNDOING})
