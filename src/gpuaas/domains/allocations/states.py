"""The life of an allocation. Deadlines are upper bounds: `due_at` is the moment, and the flows' own are shorter."""

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.kit.life import Life, exits, minutes, terminal

S = AllocationState
LIFE = Life(
    {
        S.REQUESTED: exits(S.PROVISIONING, S.FAILED, deadline=minutes(720 * 60), on_deadline=S.FAILED),
        S.PROVISIONING: exits(S.ACTIVE, S.FAILED, deadline=minutes(60), on_deadline=S.FAILED),
        S.ACTIVE: exits(S.RELEASING, rests="its tenant has it, until its lease ends or somebody releases it"),
        S.RELEASING: exits(S.RELEASED, S.RELEASE_FAILED, deadline=minutes(60), on_deadline=S.RELEASE_FAILED),
        S.RELEASED: terminal,
        S.FAILED: terminal,
        S.RELEASE_FAILED: exits(S.RELEASING, rests="its node comes back, or an operator forces the release"),
    }
)
HOLDS_SLOTS = frozenset({S.PROVISIONING, S.ACTIVE, S.RELEASING, S.RELEASE_FAILED})
LIVE = HOLDS_SLOTS | {S.REQUESTED}
HAS_ACCOUNT = frozenset({S.PROVISIONING, S.ACTIVE, S.RELEASING, S.RELEASE_FAILED})
"""Its account may be on its nodes; an active one's must be."""
