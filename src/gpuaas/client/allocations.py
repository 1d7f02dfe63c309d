"""Verbs of allocations: asked for, looked at, watched, renewed, given back; and of what is kept of them."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.allocations import (
    AllocationCreate,
    AllocationDetail,
    AllocationExplained,
    AllocationForceRelease,
    AllocationQuery,
    AllocationRelease,
    AllocationRenew,
    AllocationStop,
    AllocationView,
    CertificateKeys,
    CertificateOfRelease,
    CertificateQuery,
    EstimateQuery,
    EstimateView,
    PlatformAllocationQuery,
    SignedCertificate,
    TaskOnNode,
    TimelineView,
)
from gpuaas.contracts.http.base import Page, PageQuery


def allocation_estimate(project_id: UUID, query: EstimateQuery) -> Call[EstimateView]:
    return Call(
        operation="allocation_estimate",
        method="GET",
        path=f"/projects/{project_id}/allocation-estimate",
        answer=EstimateView,
        query=query,
    )


def allocation_create(project_id: UUID, wanted: AllocationCreate) -> Call[AllocationView]:
    return Call(
        operation="allocation_create",
        method="POST",
        path=f"/projects/{project_id}/allocations",
        answer=AllocationView,
        body=wanted,
    )


def allocation_list(project_id: UUID, query: AllocationQuery) -> Call[Page[AllocationView]]:
    return Call(
        operation="allocation_list",
        method="GET",
        path=f"/projects/{project_id}/allocations",
        answer=Page[AllocationView],
        query=query,
    )


def allocation_get(project_id: UUID, allocation_id: UUID) -> Call[AllocationDetail]:
    return Call(
        operation="allocation_get",
        method="GET",
        path=f"/projects/{project_id}/allocations/{allocation_id}",
        answer=AllocationDetail,
    )


def allocation_explain(project_id: UUID, allocation_id: UUID) -> Call[AllocationExplained]:
    return Call(
        operation="allocation_explain",
        method="GET",
        path=f"/projects/{project_id}/allocations/{allocation_id}/explain",
        answer=AllocationExplained,
    )


def allocation_timeline(project_id: UUID, allocation_id: UUID) -> Call[TimelineView]:
    return Call(
        operation="allocation_timeline",
        method="GET",
        path=f"/projects/{project_id}/allocations/{allocation_id}/timeline",
        answer=TimelineView,
    )


def allocation_timeline_live(project_id: UUID, allocation_id: UUID) -> Call[bytes]:
    """Server-sent events; `client.watching` reads them."""
    return Call(
        operation="allocation_timeline_live",
        method="GET",
        path=f"/projects/{project_id}/allocations/{allocation_id}/timeline/live",
        answer=bytes,
    )


def allocation_task_list(project_id: UUID, allocation_id: UUID, query: PageQuery) -> Call[Page[TaskOnNode]]:
    return Call(
        operation="allocation_task_list",
        method="GET",
        path=f"/projects/{project_id}/allocations/{allocation_id}/tasks",
        answer=Page[TaskOnNode],
        query=query,
    )


def allocation_renew(project_id: UUID, allocation_id: UUID, wanted: AllocationRenew) -> Call[AllocationView]:
    return Call(
        operation="allocation_renew",
        method="POST",
        path=f"/projects/{project_id}/allocations/{allocation_id}/renew",
        answer=AllocationView,
        body=wanted,
    )


def allocation_release(project_id: UUID, allocation_id: UUID, wanted: AllocationRelease) -> Call[AllocationView]:
    return Call(
        operation="allocation_release",
        method="POST",
        path=f"/projects/{project_id}/allocations/{allocation_id}/release",
        answer=AllocationView,
        body=wanted,
    )


def allocation_stop(project_id: UUID, allocation_id: UUID, wanted: AllocationStop) -> Call[AllocationView]:
    return Call(
        operation="allocation_stop",
        method="POST",
        path=f"/projects/{project_id}/allocations/{allocation_id}/stop",
        answer=AllocationView,
        body=wanted,
    )


def allocation_start(project_id: UUID, allocation_id: UUID) -> Call[AllocationView]:
    return Call(
        operation="allocation_start",
        method="POST",
        path=f"/projects/{project_id}/allocations/{allocation_id}/start",
        answer=AllocationView,
    )


# ── for operators ────────────────────────────────────────────────────────────────────────────────


def allocation_platform_list(query: PlatformAllocationQuery) -> Call[Page[AllocationView]]:
    return Call(
        operation="allocation_platform_list",
        method="GET",
        path="/allocations",
        answer=Page[AllocationView],
        query=query,
    )


def allocation_force_release(allocation_id: UUID, wanted: AllocationForceRelease) -> Call[AllocationView]:
    return Call(
        operation="allocation_force_release",
        method="POST",
        path=f"/allocations/{allocation_id}/force-release",
        answer=AllocationView,
        body=wanted,
    )


# ── certificates of sanitisation ─────────────────────────────────────────────────────────────────


def sanitisation_list(project_id: UUID, query: CertificateQuery) -> Call[Page[CertificateOfRelease]]:
    return Call(
        operation="sanitisation_list",
        method="GET",
        path=f"/projects/{project_id}/certificates",
        answer=Page[CertificateOfRelease],
        query=query,
    )


def sanitisation_get(project_id: UUID, certificate_id: UUID) -> Call[SignedCertificate]:
    return Call(
        operation="sanitisation_get",
        method="GET",
        path=f"/projects/{project_id}/certificates/{certificate_id}",
        answer=SignedCertificate,
    )


def sanitisation_keys() -> Call[CertificateKeys]:
    return Call(operation="sanitisation_keys", method="GET", path="/certificate-keys", answer=CertificateKeys)
