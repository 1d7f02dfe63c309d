"""Events of nodes and of the tasks they are given: stream PROVISIONING."""

from uuid import UUID

from gpuaas.contracts.events.base import Event, Stream


class NodeEnrolled(Event, frozen=True, kw_only=True):
    """An agent has its certificate. `again`: not for the first time."""

    NAME = "node.enrolled"
    STREAM = Stream.PROVISIONING
    node_id: UUID
    agent_version: str
    again: bool


class NodeUnknown(Event, frozen=True, kw_only=True):
    """Its lease is over: what runs on it goes on, but nobody can say how. Nothing on it is free."""

    NAME = "node.unknown"
    STREAM = Stream.PROVISIONING
    node_id: UUID


class NodeLost(Event, frozen=True, kw_only=True):
    """Silent for so long that it is not waited for any more."""

    NAME = "node.lost"
    STREAM = Stream.PROVISIONING
    node_id: UUID


class NodeRecovered(Event, frozen=True, kw_only=True):
    NAME = "node.recovered"
    STREAM = Stream.PROVISIONING
    node_id: UUID
    from_liveness: str
    rebooted: bool


class NodeQuarantined(Event, frozen=True, kw_only=True):
    NAME = "node.quarantined"
    STREAM = Stream.PROVISIONING
    node_id: UUID
    reason: str


class NodeReturned(Event, frozen=True, kw_only=True):
    """Out of quarantine, through a passed check."""

    NAME = "node.returned"
    STREAM = Stream.PROVISIONING
    node_id: UUID


class NodeRemoved(Event, frozen=True, kw_only=True):
    NAME = "node.removed"
    STREAM = Stream.PROVISIONING
    node_id: UUID


class SlotQuarantined(Event, frozen=True, kw_only=True):
    NAME = "slot.quarantined"
    STREAM = Stream.PROVISIONING
    node_id: UUID
    slot_id: UUID
    serial: str
    reason: str
    strikes: int


class SlotReturned(Event, frozen=True, kw_only=True):
    """Out of quarantine, through a passed check under load."""

    NAME = "slot.returned"
    STREAM = Stream.PROVISIONING
    node_id: UUID
    slot_id: UUID
    serial: str


class TaskEnded(Event, frozen=True, kw_only=True):
    NAME = "task.ended"
    STREAM = Stream.PROVISIONING
    task_id: UUID
    node_id: UUID
    task_type: str
    state: str
    subject_id: UUID | None


class TaskReportedLate(Event, frozen=True, kw_only=True):
    """The node says how a task went that had been given up: what it says is kept, and changes nothing by itself."""

    NAME = "task.reported_late"
    STREAM = Stream.PROVISIONING
    task_id: UUID
    node_id: UUID
    task_type: str
    outcome: str


class FlowEnded(Event, frozen=True, kw_only=True):
    """A story across domains has ended: done, undone, or surrendered."""

    NAME = "flow.ended"
    STREAM = Stream.PROVISIONING
    run_id: UUID
    kind: str
    subject_id: UUID
    state: str
    error_code: str
