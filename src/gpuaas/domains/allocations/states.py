"""The lives of allocations and of what they hold. Deadlines are upper bounds: `due_at` is the moment, and the flows'
own are shorter."""

from enum import StrEnum

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.kit.life import Life, exits, minutes, terminal

S = AllocationState
LIFE = Life(
    {
        S.REQUESTED: exits(S.PROVISIONING, S.FAILED, deadline=minutes(720 * 60), on_deadline=S.FAILED),
        S.PROVISIONING: exits(S.ACTIVE, S.FAILED, deadline=minutes(60), on_deadline=S.FAILED),
        S.ACTIVE: exits(
            S.STOPPING, S.RELEASING, rests="its tenant has it, until its lease ends or somebody releases it"
        ),
        S.STOPPING: exits(S.STOPPED, S.RELEASING, deadline=minutes(30), on_deadline=S.STOPPED),
        S.STOPPED: exits(S.STARTING, S.STOPPING, S.RELEASING, deadline=minutes(8_760 * 60), on_deadline=S.RELEASING),
        S.STARTING: exits(S.ACTIVE, S.STOPPED, S.RELEASING, deadline=minutes(45), on_deadline=S.STOPPED),
        S.RELEASING: exits(S.RELEASED, S.RELEASE_FAILED, deadline=minutes(60), on_deadline=S.RELEASE_FAILED),
        S.RELEASED: terminal,
        S.FAILED: terminal,
        S.RELEASE_FAILED: exits(S.RELEASING, rests="its node comes back, or an operator forces the release"),
    },
    of="allocations",
    what="The life of an allocation. Deadlines are upper bounds: `due_at` is the moment, and the flows' own "
    "are shorter.",
)
KEPT = frozenset({S.ACTIVE, S.STOPPING, S.STOPPED, S.STARTING})
"""Its tenant has it, whether or not he can use it now."""
HOLDS_SLOTS = KEPT | {S.PROVISIONING, S.RELEASING, S.RELEASE_FAILED}
LIVE = HOLDS_SLOTS | {S.REQUESTED}
HAS_ACCOUNT = HOLDS_SLOTS
"""Its account may be on its nodes; an active one's, and that of a stopped one, must be."""


class HoldState(StrEnum):
    HELD = "held"
    CLEANING = "cleaning"
    UNUSED = "unused"
    """Given back before anybody could use it."""
    CLEAN = "clean"
    QUARANTINED = "quarantined"


H = HoldState
HOLD_LIFE = Life(
    {
        H.HELD: exits(
            H.CLEANING, H.UNUSED, H.CLEAN, H.QUARANTINED, rests="its allocation has it, and is what has the deadline"
        ),
        H.CLEANING: exits(H.CLEAN, H.QUARANTINED, H.HELD, deadline=minutes(40), on_deadline=H.HELD),
        H.UNUSED: terminal,
        H.CLEAN: terminal,
        H.QUARANTINED: terminal,
    },
    of="slot_holds",
    what="The life of a hold on a GPU. One that is not cleaned in time, or whose release has failed, is held as "
    "before: nobody else gets the GPU, which is in quarantine, until it is proven clean.",
)
HOLDS = frozenset({H.HELD, H.CLEANING})
"""Nobody else gets the slot."""
