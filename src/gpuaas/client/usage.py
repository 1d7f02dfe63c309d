"""Verbs of usage: what was used, and for how long the balance lasts."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.usage import RunwaysView, UsageFilter, UsageQuery, UsageView


def usage_get(org_id: UUID, query: UsageQuery) -> Call[UsageView]:
    return Call(operation="usage_get", method="GET", path=f"/orgs/{org_id}/usage", answer=UsageView, query=query)


def usage_export_csv(org_id: UUID, query: UsageFilter) -> Call[bytes]:
    path = f"/orgs/{org_id}/usage-export/csv"
    return Call(operation="usage_export_csv", method="GET", path=path, answer=bytes, query=query)


def runway_get(org_id: UUID) -> Call[RunwaysView]:
    return Call(operation="runway_get", method="GET", path=f"/orgs/{org_id}/runway", answer=RunwaysView)
