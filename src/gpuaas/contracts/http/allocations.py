"""Allocations: GPUs asked for, held and given back."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import Name, PageQuery, Query, Reason, Request, Response
from gpuaas.contracts.http.nodes import Tags

PublicKey = Annotated[str, msgspec.Meta(min_length=20, max_length=8192, description="As in an authorized_keys file.")]
LeaseHours = Annotated[
    int, msgspec.Meta(ge=1, le=8_760, description="How long it lasts unless renewed; left out: as the policy says.")
]
NodeCount = Annotated[int, msgspec.Meta(ge=1, le=64, description="How many nodes, each with so many GPUs.")]
GpuCount = Annotated[int, msgspec.Meta(ge=1, le=64, description="GPUs on each node; one the SKU allows.")]


class AllocationState(StrEnum):
    REQUESTED = "requested"
    """It waits in the queue: nothing that fits is free."""
    PROVISIONING = "provisioning"
    """Its GPUs are reserved and being made ready."""
    ACTIVE = "active"
    """Its GPUs were proven usable, and are its tenant's."""
    STOPPING = "stopping"
    STOPPED = "stopped"
    """Nobody can log in and nothing of it runs; its home and its GPUs are kept, until it is started or released."""
    STARTING = "starting"
    RELEASING = "releasing"
    RELEASED = "released"
    """Nothing of it is left on its nodes; how they were cleaned is in the certificate."""
    FAILED = "failed"
    """It never became active; nothing was charged."""
    RELEASE_FAILED = "release_failed"
    """It could not be proven gone: its GPUs are in quarantine, nobody is given them, and nothing more is charged."""


class StopReason(StrEnum):
    """Why an allocation is stopped. For money: it is not charged, and after a time it is released. By its own people:
    it is charged as before, since its GPUs are kept for them."""

    USER = "user"
    BALANCE = "balance"
    BUDGET = "budget"


class Isolation(StrEnum):
    USER_REVOKE = "user-revoke"
    FULL_REIMAGE = "full-reimage"


class IfFull(StrEnum):
    REFUSE = "refuse"
    QUEUE = "queue"


class AllocationAsk(Request, frozen=True, kw_only=True):
    """What is asked for."""

    sku_id: UUID
    gpu_count: GpuCount = 1
    node_count: NodeCount = 1
    lease_hours: LeaseHours | None = None


class EstimateQuery(Query, frozen=True, kw_only=True):
    sku_id: UUID
    gpu_count: GpuCount = 1
    node_count: NodeCount = 1
    lease_hours: LeaseHours | None = None


class AllocationCreate(AllocationAsk, frozen=True, kw_only=True):
    name: Name | None = None
    """Left out: one is made."""
    if_full: IfFull = IfFull.REFUSE
    ssh_key_ids: Annotated[list[UUID], msgspec.Meta(max_length=50)] | None = None
    """Of your own SSH keys; left out: all of them."""
    ssh_keys: Annotated[list[PublicKey], msgspec.Meta(max_length=50)] = msgspec.field(default_factory=list)
    """Further public keys."""
    tags: Tags = msgspec.field(default_factory=list)


class AllocationRenew(Request, frozen=True, kw_only=True):
    lease_hours: LeaseHours | None = None
    """From now on; left out: as at first."""


class AllocationRelease(Request, frozen=True, kw_only=True):
    reason: Reason | None = None


class AllocationStop(Request, frozen=True, kw_only=True):
    reason: Reason | None = None


class AllocationForceRelease(Request, frozen=True, kw_only=True):
    reason: Reason


class AllocationQuery(PageQuery, frozen=True, kw_only=True):
    state: Annotated[AllocationState, msgspec.Meta(description="Only those in this state.")] | None = None
    live: Annotated[bool, msgspec.Meta(description="Only those that have not ended.")] = False
    sku_id: UUID | None = None
    tag: Annotated[str, msgspec.Meta(min_length=1, max_length=63)] | None = None


class PlatformAllocationQuery(AllocationQuery, frozen=True, kw_only=True):
    org_id: UUID | None = None
    node_id: UUID | None = None


class HeldGpu(Response, frozen=True, kw_only=True):
    node_id: UUID
    node_name: str
    index: int
    serial: str
    model: str
    numa: int
    healthy: bool
    """Not in quarantine."""
    detail: str
    """Why not healthy."""


class Failure(Response, frozen=True, kw_only=True):
    code: str
    reason: str


class AllocationView(Response, frozen=True, kw_only=True):
    id: UUID
    org_id: UUID
    project_id: UUID
    name: str
    sku_id: UUID
    sku_name: str
    region: str
    gpu_model: str
    gpu_count: int
    node_count: int
    isolation: Isolation
    currency: str
    micros_per_hour: int
    """For all of its GPUs."""
    tags: list[str]
    requested_by: str
    state: AllocationState
    state_since: datetime
    due_at: datetime | None
    """When this state ends by itself at the latest, and `next_action` happens."""
    next_action: str
    degraded: bool
    degraded_reason: str
    created_at: datetime
    active_at: datetime | None
    expires_at: datetime | None
    """It is released then, unless renewed."""
    ends_at: datetime | None
    """It cannot be renewed beyond this."""
    reclaim_at: datetime | None
    """It is idle, and is released then, unless it is used or renewed."""
    stop_reason: StopReason | None
    """Why it is stopped, or about to be, or being started again."""
    released_by: str
    release_reason: str
    ended_at: datetime | None
    failure: Failure | None
    cost_micros: int
    """So far, to the second, whether it is posted yet or not."""
    usable_seconds: int
    """For how long it was usable: what it is charged for."""
    held_micros: int
    """Set aside of the organisation's balance for as long as it lives."""
    charging: bool
    """It is charged for now: not before its GPUs are proven usable, nor while it is out of order."""
    not_charged_since: datetime | None
    """Since when it is out of order or stopped, and costs nothing."""
    not_charged_reason: str
    runway_seconds: int | None
    """For how long the organisation's balance lasts with all that runs; None: nothing of it is charged for."""
    version: int


class Connection(Response, frozen=True, kw_only=True):
    node_name: str
    login: str
    host: str
    port: int
    host_keys: list[str]
    """What the host shows at the first login; compare them."""
    ssh_command: str


class QueuePlace(Response, frozen=True, kw_only=True):
    position: int
    """1: next."""
    waiting: int
    """How many wait for this SKU."""
    estimated_start: datetime | None
    """None: cannot be told."""
    reason: str


class AllocationDetail(AllocationView, frozen=True, kw_only=True):
    gpus: list[HeldGpu]
    connections: list[Connection]
    """Once there are accounts; for those who may use the allocation."""
    queue: QueuePlace | None
    certificate_ids: list[UUID]


class Explanation(Response, frozen=True, kw_only=True):
    question: str
    answer: str


class AllocationExplained(Response, frozen=True, kw_only=True):
    summary: str
    explanations: list[Explanation]


class EstimateView(Response, frozen=True, kw_only=True):
    currency: str
    micros_per_hour: int
    micros_for_lease: int
    lease_hours: int
    hold_micros: int
    """What would be set aside of the balance for as long as it lives."""
    hold_minutes: int
    """How many minutes of its price that is."""
    available_micros: int
    """What can be spent now."""
    affordable: bool
    """What can be spent covers what would be set aside."""
    runway_seconds: int | None
    """For how long the balance would last with it; None: it costs nothing."""
    fits_now: bool
    summary: str
    """What would be reserved, or why nothing fits and what would help."""
    queue: QueuePlace | None
    quota_left: int | None
    """GPUs of this model that may still be held; None: no limit of its own."""


class TimelineMoment(Response, frozen=True, kw_only=True):
    at: datetime
    phase: str
    detail: str
    seconds: float | None
    """Until the next; None: it is the last so far."""
    source: str
    """`control` or the name of the node that told of it."""
    actor: str
    correlation_id: str


class TimelineView(Response, frozen=True, kw_only=True):
    state: AllocationState
    moments: list[TimelineMoment]


class TaskOnNode(Response, frozen=True, kw_only=True):
    """What was done on the tenant's machine, on our order."""

    id: UUID
    node_name: str
    type: str
    state: str
    created_at: datetime
    ended_at: datetime | None
    reason: str
    log: str


class CertificateOfRelease(Response, frozen=True, kw_only=True):
    id: UUID
    allocation_id: UUID
    node_id: UUID
    serials: list[str]
    key_id: str
    issued_at: datetime


class CertificateQuery(PageQuery, frozen=True, kw_only=True):
    allocation_id: Annotated[UUID, msgspec.Meta(description="Only those of this allocation.")] | None = None


class SignedCertificate(CertificateOfRelease, frozen=True, kw_only=True):
    envelope: str
    """DSSE, signed with Ed25519: `gpuaas certificates verify` checks it without us."""


class CertificateKey(Response, frozen=True, kw_only=True):
    key_id: str
    public_key: str
    """Ed25519, 32 bytes in base64."""
    signs_from: datetime
    signs_until: datetime | None


class CertificateKeys(Response, frozen=True, kw_only=True):
    keys: list[CertificateKey]


class QueueEntry(Response, frozen=True, kw_only=True):
    allocation_id: UUID
    org_id: UUID
    project_id: UUID
    name: str
    sku_name: str
    gpu_count: int
    node_count: int
    priority: int
    share: float
    """How much of the SKU its organisation used lately; less comes first."""
    waiting_since: datetime
    place: QueuePlace


class QueueView(Response, frozen=True, kw_only=True):
    entries: list[QueueEntry]


class PrioritySet(Request, frozen=True, kw_only=True):
    priority: Annotated[int, msgspec.Meta(ge=-100, le=100)]
    reason: Reason


class QuotaSet(Request, frozen=True, kw_only=True):
    gpu_model: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    project_id: UUID | None = None
    """Left out: of the whole organisation."""
    gpus: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class QuotaView(Response, frozen=True, kw_only=True):
    id: UUID | None
    """None: not set by itself, the policy `quota.gpus` holds."""
    gpu_model: str
    project_id: UUID | None
    gpus: int
    used: int
    set_by: str


class QuotasView(Response, frozen=True, kw_only=True):
    quotas: list[QuotaView]


class OrphanKind(StrEnum):
    ACCOUNT = "account"
    """An account of ours that no live allocation has."""
    LEASE = "lease"
    MISSING_ACCOUNT = "missing_account"
    """An active allocation's account that its node does not have."""
    MISSING_LEASE = "missing_lease"
    USAGE = "usage"
    """A node counted clearly fewer usable seconds than an allocation on it is charged for."""


class OrphanView(Response, frozen=True, kw_only=True):
    id: UUID
    node_id: UUID
    node_name: str
    kind: OrphanKind
    name: str
    allocation_id: UUID | None
    detail: str
    first_seen_at: datetime
    last_seen_at: datetime
    task_id: UUID | None


class OrphanReclaim(Request, frozen=True, kw_only=True):
    reason: Reason
