"""Verbs of quotas: how many GPUs an organisation and its projects may hold at once."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.allocations import QuotaSet, QuotasView, QuotaView
from gpuaas.contracts.http.base import Done


def quota_list(org_id: UUID) -> Call[QuotasView]:
    return Call(operation="quota_list", method="GET", path=f"/orgs/{org_id}/quotas", answer=QuotasView)


def quota_set(org_id: UUID, wanted: QuotaSet) -> Call[QuotaView]:
    path = f"/admin/orgs/{org_id}/quotas"
    return Call(operation="quota_set", method="PUT", path=path, answer=QuotaView, body=wanted)


def quota_unset(org_id: UUID, quota_id: UUID) -> Call[Done]:
    path = f"/admin/orgs/{org_id}/quotas/{quota_id}"
    return Call(operation="quota_unset", method="DELETE", path=path, answer=Done)
