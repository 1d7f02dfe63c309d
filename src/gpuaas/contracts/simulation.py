"""Faults on tap: what can be asked of simulated hosts over their local control socket, one JSON line each way."""

from enum import StrEnum
from typing import Annotated

import msgspec

MAX_LINE = 64 * 1024


class Do(StrEnum):
    STATUS = "status"
    LOSE_GPU = "lose_gpu"
    """A GPU falls off the bus; its driver complains with `xid`."""
    FAIL_HEALTH = "fail_health"
    """Checks of one GPU, or of the whole host, fail."""
    HANG_NEXT_TASK = "hang_next_task"
    CRASH_MID_TASK = "crash_mid_task"
    """The agent dies as if killed, `at` a point of the next task."""
    DROP_NETWORK = "drop_network"
    """For `seconds`, or until cleared."""
    REFUSE_RESET = "refuse_reset"
    REFUSE_IMAGE = "refuse_image"
    """The system cannot be installed anew."""
    GPU_USE = "gpu_use"
    """Somebody uses `percent` of one GPU, or of all: what its metrics say from now on."""
    SKEW_CLOCK = "skew_clock"
    """By `seconds`, either way."""
    CLEAR = "clear"
    RUN = "run"
    """Leave a process running in an account's shell: `login`, for `seconds`."""


class Point(StrEnum):
    """Where in a verb: before anything changed, when half of it has, or when all has and nothing was told."""

    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


class ControlRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    do: Do
    node: Annotated[str, msgspec.Meta(max_length=100)] = ""
    """Its name; empty: all of them."""
    gpu: Annotated[int, msgspec.Meta(ge=0, le=63)] | None = None
    xid: Annotated[int, msgspec.Meta(ge=1, le=999)] = 79
    seconds: Annotated[float, msgspec.Meta(ge=-86_400, le=86_400)] = 0.0
    percent: Annotated[float, msgspec.Meta(ge=0, le=100)] = 0.0
    at: Point = Point.DURING
    login: Annotated[str, msgspec.Meta(max_length=32)] = ""


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    node_id: str
    gpus: int
    lost_gpus: list[int]
    accounts: int
    faults: list[str]
    """Names of the faults in force."""


class ControlAnswer(msgspec.Struct, frozen=True, kw_only=True):
    ok: bool
    message: str = ""
    nodes: list[NodeStatus] = msgspec.field(default_factory=list)
