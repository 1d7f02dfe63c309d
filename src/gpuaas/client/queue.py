"""Verbs of the waiting line: who waits for GPUs, and who comes before whom."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.allocations import PrioritySet, QueueEntry, QueueView


def project_queue_list(project_id: UUID) -> Call[QueueView]:
    path = f"/projects/{project_id}/queue"
    return Call(operation="project_queue_list", method="GET", path=path, answer=QueueView)


def queue_list() -> Call[QueueView]:
    return Call(operation="queue_list", method="GET", path="/admin/queue", answer=QueueView)


def allocation_priority_set(allocation_id: UUID, wanted: PrioritySet) -> Call[QueueEntry]:
    path = f"/admin/allocations/{allocation_id}/priority"
    return Call(operation="allocation_priority_set", method="PATCH", path=path, answer=QueueEntry, body=wanted)
