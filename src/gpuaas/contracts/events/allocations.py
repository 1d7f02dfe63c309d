"""Events of allocations: stream PROVISIONING. They carry the organisation, so that whoever tells people knows whom."""

from datetime import datetime
from uuid import UUID

from gpuaas.contracts.events.base import Event, Stream
from gpuaas.contracts.http.allocations import StopReason


class AllocationRequested(Event, frozen=True, kw_only=True):
    """Asked for. `queued`: nothing fits now, it waits."""

    NAME = "allocation.requested"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID
    sku_id: UUID
    gpus: int
    queued: bool


class AllocationReserved(Event, frozen=True, kw_only=True):
    """Its GPUs are held for it, at once or after it waited; now they are made ready."""

    NAME = "allocation.reserved"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID
    gpus: int


class AllocationActive(Event, frozen=True, kw_only=True):
    """Its GPUs were proven usable at `active_at`: from then on it is charged."""

    NAME = "allocation.active"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID
    active_at: datetime


class AllocationFailed(Event, frozen=True, kw_only=True):
    """It never became active."""

    NAME = "allocation.failed"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID
    code: str
    reason: str


class AllocationStopping(Event, frozen=True, kw_only=True):
    """Its login is being closed. For money, it is not charged from `requested_at` on."""

    NAME = "allocation.stopping"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID
    requested_at: datetime
    reason: StopReason


class AllocationStopped(Event, frozen=True, kw_only=True):
    """Nobody can log in and nothing runs; its home and its GPUs are kept until `release_at`."""

    NAME = "allocation.stopped"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID
    reason: StopReason
    release_at: datetime | None


class AllocationStopFailed(Event, frozen=True, kw_only=True):
    """No node has proven that nobody can log in: it is tried again."""

    NAME = "allocation.stop_failed"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID
    reason: str


class AllocationStarted(Event, frozen=True, kw_only=True):
    """Its GPUs were proven usable again at `started_at`: from then on it is charged."""

    NAME = "allocation.started"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID
    started_at: datetime


class AllocationStartFailed(Event, frozen=True, kw_only=True):
    """It is stopped as before."""

    NAME = "allocation.start_failed"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID
    reason: str


class AllocationReleasing(Event, frozen=True, kw_only=True):
    """From `requested_at` on it is not charged any more."""

    NAME = "allocation.releasing"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID
    requested_at: datetime
    reason: str
    forced: bool


class AllocationReleased(Event, frozen=True, kw_only=True):
    NAME = "allocation.released"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID


class AllocationReleaseFailed(Event, frozen=True, kw_only=True):
    """It could not be proven gone: its GPUs are in quarantine."""

    NAME = "allocation.release_failed"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID
    reason: str


class AllocationAbandoned(Event, frozen=True, kw_only=True):
    """Forced release was tried as often as allowed: its nodes are in quarantine, and an operator has to look."""

    NAME = "allocation.abandoned"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID
    attempts: int


class AllocationDegraded(Event, frozen=True, kw_only=True):
    """Something it holds is lost or sick."""

    NAME = "allocation.degraded"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID
    reason: str


class AllocationRestored(Event, frozen=True, kw_only=True):
    NAME = "allocation.restored"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID


class AllocationExpiring(Event, frozen=True, kw_only=True):
    """Its lease ends at `expires_at`, unless renewed."""

    NAME = "allocation.expiring"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID
    expires_at: datetime


class AllocationIdle(Event, frozen=True, kw_only=True):
    """Nobody uses its GPUs; it is released at `reclaim_at`, unless it is used or renewed."""

    NAME = "allocation.idle"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID
    idle_since: datetime
    reclaim_at: datetime


class AllocationBusyAgain(Event, frozen=True, kw_only=True):
    """The warning that it would be reclaimed is taken back."""

    NAME = "allocation.busy_again"
    STREAM = Stream.PROVISIONING
    allocation_id: UUID
    project_id: UUID


class OrphanFound(Event, frozen=True, kw_only=True):
    """What an agent observes is not what the books say, for longer than one sweep."""

    NAME = "orphan.found"
    STREAM = Stream.PROVISIONING
    orphan_id: UUID
    node_id: UUID
    kind: str
    name: str


class OrphanEnded(Event, frozen=True, kw_only=True):
    NAME = "orphan.ended"
    STREAM = Stream.PROVISIONING
    orphan_id: UUID
    node_id: UUID
