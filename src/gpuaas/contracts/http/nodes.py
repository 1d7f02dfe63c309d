"""Nodes as operators see them: what is wanted of each, what is observed, the tasks it was given, how it is."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from gpuaas.contracts.http.base import Name, OneTime, PageQuery, Query, Reason, Request, Response, ShownOnce

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
_WORD = r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$(?!\n)"
Region = Annotated[
    str,
    msgspec.Meta(
        min_length=1, max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$(?!\n)", examples=["eu-central"]
    ),
]
LabelKey = Annotated[str, msgspec.Meta(min_length=1, max_length=63, pattern=_WORD)]
LabelValue = Annotated[str, msgspec.Meta(max_length=63, pattern=r"^[A-Za-z0-9._/-]*$(?!\n)")]
Labels = Annotated[dict[LabelKey, LabelValue], msgspec.Meta(max_length=64)]
Tags = Annotated[
    list[Annotated[str, msgspec.Meta(min_length=1, max_length=63, pattern=_WORD)]], msgspec.Meta(max_length=64)
]
HostAddress = Annotated[
    str,
    msgspec.Meta(
        max_length=253, pattern=r"^[A-Za-z0-9:.-]*$(?!\n)", description="A name or address of the host; may be empty."
    ),
]


class NodeState(StrEnum):
    ENROLLING = "enrolling"
    ACTIVE = "active"
    DISABLED = "disabled"
    REMOVED = "removed"


class Liveness(StrEnum):
    NEW = "new"
    """It has never spoken."""
    ONLINE = "online"
    UNKNOWN = "unknown"
    """Silent for longer than its lease: not free, not known."""
    LOST = "lost"


class NodeHealth(StrEnum):
    UNCHECKED = "unchecked"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    QUARANTINED = "quarantined"


class TaskState(StrEnum):
    QUEUED = "queued"
    READY = "ready"
    """Signed; the node has not fetched it yet."""
    DELIVERED = "delivered"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    """It did not end in time; what it did until then has to be looked at."""
    EXPIRED = "expired"
    """It never reached the node."""


class NodeCreate(Request, frozen=True, kw_only=True):
    name: Name
    region: Region
    sku_id: UUID
    address: HostAddress = ""
    labels: Labels = msgspec.field(default_factory=dict)
    tags: Tags = msgspec.field(default_factory=list)


class NodeUpdate(Request, frozen=True, kw_only=True):
    labels: Labels | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    address: HostAddress | UnsetType = UNSET


class NodeReason(Request, frozen=True, kw_only=True):
    reason: Reason


class NodeCheck(Request, frozen=True, kw_only=True):
    load: bool = False
    """Under load, too: no tenant may be on the GPUs."""


class NodeProbe(Request, frozen=True, kw_only=True):
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 22


class ProbeView(Response, frozen=True, kw_only=True):
    node_id: UUID
    address: str
    """The one that was tried; empty when its name does not resolve."""
    port: int
    reached: bool
    detail: str
    milliseconds: float | None


class Quarantine(Response, frozen=True, kw_only=True):
    reason: str
    detail: str
    since: Instant


class NodeView(Response, frozen=True, kw_only=True):
    id: UUID
    name: str
    region: str
    sku_id: UUID
    address: str
    labels: dict[str, str]
    tags: list[str]
    state: NodeState
    cordoned: bool
    drained: bool
    generation: int
    """Of what is wanted."""
    observed_generation: int
    """Of what the agent has taken over."""
    liveness: Liveness
    last_seen_at: Instant | None
    agent_version: str
    boot_id: str
    accounts: list[str]
    """Accounts of ours on the host now, as its agent observes them: nothing is counted, so nothing drifts."""
    health: NodeHealth
    quarantine: Quarantine | None
    differences: list[str]
    """How its hardware differs from its SKU."""
    gpus: int
    """That are there and not in quarantine."""
    gpus_expected: int
    """That its SKU promises."""
    sellable: bool
    why_not: list[str]
    inspected_at: Instant | None
    checked_at: Instant | None
    enrolled_at: Instant | None
    created_at: Instant


class NodeCreated(ShownOnce, frozen=True, kw_only=True):
    """A node that waits for its agent. The command is run on the machine, once, before it expires."""

    id: UUID
    node: NodeView
    token: OneTime
    command: OneTime
    expires_at: Instant


class NodeListQuery(PageQuery, frozen=True, kw_only=True):
    state: NodeState | None = None
    region: Region | None = None
    sku_id: UUID | None = None
    label: (
        Annotated[
            str,
            msgspec.Meta(
                max_length=127,
                pattern=r"^[A-Za-z0-9._/-]+(=[A-Za-z0-9._/-]*)?$(?!\n)",
                description="A label's name, or name=value.",
            ),
        ]
        | None
    ) = None
    liveness: Liveness | None = None
    health: NodeHealth | None = None


class TaskView(Response, frozen=True, kw_only=True):
    id: UUID
    node_id: UUID
    type: str
    version: int
    subject_id: UUID | None
    state: TaskState
    state_since: Instant
    due_at: Instant | None
    """When it will have left its state, one way or another; null once it has ended."""
    sequence: int | None
    cancel_requested: bool
    reason: str
    code: str
    created_by: str
    created_at: Instant
    delivered_at: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    correlation_id: str


class PhaseView(Response, frozen=True, kw_only=True):
    name: str
    at: Instant
    detail: str


class TaskDetail(TaskView, frozen=True, kw_only=True):
    arguments: dict[str, Any]
    result: dict[str, Any] | None
    log: str
    phases: list[PhaseView]


class TaskListQuery(PageQuery, frozen=True, kw_only=True):
    node_id: UUID | None = None
    state: TaskState | None = None
    type: Annotated[str, msgspec.Meta(max_length=60)] | None = None
    subject_id: UUID | None = None


class SlotListQuery(PageQuery, frozen=True, kw_only=True):
    node_id: UUID | None = None
    sellable: bool | None = None


class NodeSlotView(Response, frozen=True, kw_only=True):
    id: UUID
    node_id: UUID
    node_name: str
    index: int
    serial: str
    model: str
    memory_bytes: int
    numa: int
    address: str
    nvme: str | None
    fabric: str | None
    present: bool
    replaced_by: str = ""
    """The serial number of the GPU that is in its place now; empty: none."""
    sellable: bool
    why_not: list[str]
    quarantine: Quarantine | None
    strikes: int


class SlotQuarantine(Request, frozen=True, kw_only=True):
    reason: Reason


class HealthEntry(Response, frozen=True, kw_only=True):
    """A check or a driver's fault, as the node told of it."""

    id: UUID
    node_id: UUID
    serial: str
    """Empty: of the host itself."""
    kind: str
    """check, load_check, fault, quarantined or returned."""
    good: bool
    code: str
    detail: str
    at: Instant


class HealthHistoryQuery(PageQuery, frozen=True, kw_only=True):
    serial: Annotated[str, msgspec.Meta(max_length=100)] | None = None


class MetricsQuery(Query, frozen=True, kw_only=True):
    minutes: Annotated[int, msgspec.Meta(ge=1, le=10_080, description="How far back.")] = 15
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000, description="How many samples at most, newest first.")] = 120


class SampleView(Response, frozen=True, kw_only=True):
    at: Instant
    values: dict[str, float]


class NodeMetrics(Response, frozen=True, kw_only=True):
    node_id: UUID
    samples: list[SampleView]


class Trouble(Response, frozen=True, kw_only=True):
    """A node or slot that cannot be sold, and why."""

    node_id: UUID
    node_name: str
    slot_id: UUID | None
    serial: str
    why_not: list[str]


class FleetHealth(Response, frozen=True, kw_only=True):
    ok: bool
    nodes: int
    by_state: dict[str, int]
    by_liveness: dict[str, int]
    slots: int
    slots_sellable: int
    slots_quarantined: int
    tasks_open: int
    troubles: list[Trouble]
    """At most 200, quarantines first."""
