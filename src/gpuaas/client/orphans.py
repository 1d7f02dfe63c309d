"""Verbs of orphans: what agents observe and the books do not say, or the other way round."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.allocations import OrphanReclaim, OrphanView
from gpuaas.contracts.http.base import Page, PageQuery


def orphan_list(query: PageQuery) -> Call[Page[OrphanView]]:
    return Call(operation="orphan_list", method="GET", path="/admin/orphans", answer=Page[OrphanView], query=query)


def orphan_reclaim(orphan_id: UUID, wanted: OrphanReclaim) -> Call[OrphanView]:
    path = f"/admin/orphans/{orphan_id}/reclaim"
    return Call(operation="orphan_reclaim", method="POST", path=path, answer=OrphanView, body=wanted)
