"""Verbs of flows, for operators."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.flows import FlowAbort, FlowDetail, FlowQuery, FlowView


def flow_list(query: FlowQuery) -> Call[Page[FlowView]]:
    return Call(operation="flow_list", method="GET", path="/flows", answer=Page[FlowView], query=query)


def flow_get(run_id: UUID) -> Call[FlowDetail]:
    return Call(operation="flow_get", method="GET", path=f"/flows/{run_id}", answer=FlowDetail)


def flow_retry(run_id: UUID) -> Call[FlowView]:
    return Call(operation="flow_retry", method="POST", path=f"/flows/{run_id}/retry", answer=FlowView)


def flow_abort(run_id: UUID, wanted: FlowAbort) -> Call[FlowView]:
    return Call(operation="flow_abort", method="POST", path=f"/flows/{run_id}/abort", answer=FlowView, body=wanted)
