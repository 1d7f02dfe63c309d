"""Verbs of the fleet: nodes, their slots, their tasks, and how all of it is."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.artifacts import NodeAgentUpdate
from gpuaas.contracts.http.base import Done, Page
from gpuaas.contracts.http.nodes import (
    FleetHealth,
    HealthEntry,
    HealthHistoryQuery,
    MetricsQuery,
    NodeCheck,
    NodeCreate,
    NodeCreated,
    NodeListQuery,
    NodeMetrics,
    NodeProbe,
    NodeReason,
    NodeSlotView,
    NodeUpdate,
    NodeView,
    ProbeView,
    SlotListQuery,
    SlotQuarantine,
    TaskDetail,
    TaskListQuery,
    TaskView,
)

# ── nodes ────────────────────────────────────────────────────────────────────────────────────────


def node_list(query: NodeListQuery) -> Call[Page[NodeView]]:
    return Call(operation="node_list", method="GET", path="/nodes", answer=Page[NodeView], query=query)


def node_get(node_id: UUID) -> Call[NodeView]:
    return Call(operation="node_get", method="GET", path=f"/nodes/{node_id}", answer=NodeView)


def node_create(wanted: NodeCreate) -> Call[NodeCreated]:
    return Call(operation="node_create", method="POST", path="/nodes", answer=NodeCreated, body=wanted)


def node_update(node_id: UUID, wanted: NodeUpdate) -> Call[NodeView]:
    return Call(operation="node_update", method="PATCH", path=f"/nodes/{node_id}", answer=NodeView, body=wanted)


def node_reenrol(node_id: UUID, wanted: NodeReason) -> Call[NodeCreated]:
    path = f"/nodes/{node_id}/reenrol"
    return Call(operation="node_reenrol", method="POST", path=path, answer=NodeCreated, body=wanted)


def node_cordon(node_id: UUID, wanted: NodeReason) -> Call[NodeView]:
    path = f"/nodes/{node_id}/cordon"
    return Call(operation="node_cordon", method="POST", path=path, answer=NodeView, body=wanted)


def node_uncordon(node_id: UUID) -> Call[NodeView]:
    return Call(operation="node_uncordon", method="POST", path=f"/nodes/{node_id}/uncordon", answer=NodeView)


def node_drain(node_id: UUID, wanted: NodeReason) -> Call[NodeView]:
    return Call(operation="node_drain", method="POST", path=f"/nodes/{node_id}/drain", answer=NodeView, body=wanted)


def node_undrain(node_id: UUID) -> Call[NodeView]:
    return Call(operation="node_undrain", method="POST", path=f"/nodes/{node_id}/undrain", answer=NodeView)


def node_disable(node_id: UUID, wanted: NodeReason) -> Call[NodeView]:
    path = f"/nodes/{node_id}/disable"
    return Call(operation="node_disable", method="POST", path=path, answer=NodeView, body=wanted)


def node_enable(node_id: UUID) -> Call[NodeView]:
    return Call(operation="node_enable", method="POST", path=f"/nodes/{node_id}/enable", answer=NodeView)


def node_inspect(node_id: UUID) -> Call[TaskView]:
    return Call(operation="node_inspect", method="POST", path=f"/nodes/{node_id}/inspect", answer=TaskView)


def node_check(node_id: UUID, wanted: NodeCheck) -> Call[TaskView]:
    return Call(operation="node_check", method="POST", path=f"/nodes/{node_id}/check", answer=TaskView, body=wanted)


def node_probe(node_id: UUID, wanted: NodeProbe) -> Call[ProbeView]:
    return Call(operation="node_probe", method="POST", path=f"/nodes/{node_id}/probe", answer=ProbeView, body=wanted)


def node_agent_update(node_id: UUID, wanted: NodeAgentUpdate) -> Call[TaskView]:
    path = f"/nodes/{node_id}/agent-update"
    return Call(operation="node_agent_update", method="POST", path=path, answer=TaskView, body=wanted)


def node_return(node_id: UUID, wanted: NodeReason) -> Call[TaskView]:
    return Call(operation="node_return", method="POST", path=f"/nodes/{node_id}/return", answer=TaskView, body=wanted)


def node_remove(node_id: UUID) -> Call[Done]:
    return Call(operation="node_remove", method="DELETE", path=f"/nodes/{node_id}", answer=Done)


def node_health_list(node_id: UUID, query: HealthHistoryQuery) -> Call[Page[HealthEntry]]:
    path = f"/nodes/{node_id}/health"
    return Call(operation="node_health_list", method="GET", path=path, answer=Page[HealthEntry], query=query)


def node_metrics(node_id: UUID, query: MetricsQuery) -> Call[NodeMetrics]:
    path = f"/nodes/{node_id}/metrics"
    return Call(operation="node_metrics", method="GET", path=path, answer=NodeMetrics, query=query)


# ── slots ────────────────────────────────────────────────────────────────────────────────────────


def slot_list(query: SlotListQuery) -> Call[Page[NodeSlotView]]:
    return Call(operation="slot_list", method="GET", path="/slots", answer=Page[NodeSlotView], query=query)


def slot_quarantine(slot_id: UUID, wanted: SlotQuarantine) -> Call[NodeSlotView]:
    path = f"/slots/{slot_id}/quarantine"
    return Call(operation="slot_quarantine", method="POST", path=path, answer=NodeSlotView, body=wanted)


def slot_return(slot_id: UUID, wanted: NodeReason) -> Call[TaskView]:
    return Call(operation="slot_return", method="POST", path=f"/slots/{slot_id}/return", answer=TaskView, body=wanted)


# ── tasks, and the whole fleet ───────────────────────────────────────────────────────────────────


def task_list(query: TaskListQuery) -> Call[Page[TaskView]]:
    return Call(operation="task_list", method="GET", path="/tasks", answer=Page[TaskView], query=query)


def task_get(task_id: UUID) -> Call[TaskDetail]:
    return Call(operation="task_get", method="GET", path=f"/tasks/{task_id}", answer=TaskDetail)


def task_cancel(task_id: UUID, wanted: NodeReason) -> Call[TaskView]:
    return Call(operation="task_cancel", method="POST", path=f"/tasks/{task_id}/cancel", answer=TaskView, body=wanted)


def fleet_health() -> Call[FleetHealth]:
    return Call(operation="fleet_health", method="GET", path="/ops/fleet-health", answer=FleetHealth)
