"""The audit log's verbs."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.audit import (
    AuditEntryDetail,
    AuditEntryView,
    AuditFilter,
    AuditQuery,
    CheckpointView,
    PlatformAuditFilter,
    PlatformAuditQuery,
)
from gpuaas.contracts.http.base import Page, PageQuery

FIRST_PAGE = PageQuery()


def audit_list(org_id: UUID, query: AuditQuery) -> Call[Page[AuditEntryView]]:
    path = f"/orgs/{org_id}/audit"
    return Call(operation="audit_list", method="GET", path=path, answer=Page[AuditEntryView], query=query)


def audit_get(org_id: UUID, audit_id: UUID) -> Call[AuditEntryDetail]:
    path = f"/orgs/{org_id}/audit/{audit_id}"
    return Call(operation="audit_get", method="GET", path=path, answer=AuditEntryDetail)


def audit_export_csv(org_id: UUID, query: AuditFilter) -> Call[bytes]:
    path = f"/orgs/{org_id}/audit-export/csv"
    return Call(operation="audit_export_csv", method="GET", path=path, answer=bytes, query=query)


def audit_export_jsonl(org_id: UUID, query: AuditFilter) -> Call[bytes]:
    path = f"/orgs/{org_id}/audit-export/jsonl"
    return Call(operation="audit_export_jsonl", method="GET", path=path, answer=bytes, query=query)


def audit_platform_list(query: PlatformAuditQuery) -> Call[Page[AuditEntryView]]:
    return Call(operation="audit_platform_list", method="GET", path="/audit", answer=Page[AuditEntryView], query=query)


def audit_platform_get(audit_id: UUID) -> Call[AuditEntryDetail]:
    return Call(operation="audit_platform_get", method="GET", path=f"/audit/{audit_id}", answer=AuditEntryDetail)


def audit_platform_export_csv(query: PlatformAuditFilter) -> Call[bytes]:
    path = "/audit-export/csv"
    return Call(operation="audit_platform_export_csv", method="GET", path=path, answer=bytes, query=query)


def audit_platform_export_jsonl(query: PlatformAuditFilter) -> Call[bytes]:
    path = "/audit-export/jsonl"
    return Call(operation="audit_platform_export_jsonl", method="GET", path=path, answer=bytes, query=query)


def audit_checkpoint_list(query: PageQuery = FIRST_PAGE) -> Call[Page[CheckpointView]]:
    path = "/audit-checkpoints"
    return Call(operation="audit_checkpoint_list", method="GET", path=path, answer=Page[CheckpointView], query=query)
