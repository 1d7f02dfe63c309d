"""The life of a task. Only what was handed to the node can be told of by it; whatever it does not tell ends here."""

from gpuaas.contracts.http.nodes import TaskState
from gpuaas.kit.life import Life, exits, minutes, terminal

S = TaskState
_ENDS = (S.DONE, S.FAILED, S.REFUSED, S.CANCELLED, S.TIMED_OUT)
# Upper bounds: a task's own `due_at` is the moment, set with each move from its type's deadline.
LIFE = Life(
    {
        S.QUEUED: exits(S.READY, S.CANCELLED, S.EXPIRED, deadline=minutes(10), on_deadline=S.EXPIRED),
        S.READY: exits(S.DELIVERED, S.CANCELLED, S.EXPIRED, deadline=minutes(10), on_deadline=S.EXPIRED),
        S.DELIVERED: exits(S.RUNNING, *_ENDS, deadline=minutes(22), on_deadline=S.TIMED_OUT),
        S.RUNNING: exits(*_ENDS, deadline=minutes(12), on_deadline=S.TIMED_OUT),
        S.DONE: terminal,
        S.FAILED: terminal,
        S.REFUSED: terminal,
        S.CANCELLED: terminal,
        S.TIMED_OUT: terminal,
        S.EXPIRED: terminal,
    },
    of="tasks",
)
OPEN = frozenset({S.QUEUED, S.READY, S.DELIVERED, S.RUNNING})
AT_NODE = frozenset({S.DELIVERED, S.RUNNING})
"""The agent has it, or may have it."""
TO_CLAIM = frozenset({S.READY, S.DELIVERED, S.RUNNING})
GRACE_SECONDS = 60
"""What a report may take on its way, beyond the task's own deadline."""
