"""Operations on quotas: organisations read theirs, the platform sets them."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.allocations import QuotaSet, QuotasView, QuotaView
from gpuaas.contracts.http.base import Done
from gpuaas.contracts.permissions import P
from gpuaas.domains.allocations.quotas import service
from gpuaas.infra.http.context import OrgContext, PlatformContext
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import OrgId


@operation("GET", "/orgs/{org_id}/quotas", permission=P.ALLOCATIONS_READ, lane=Lane.DEFAULT)
async def quota_list(cx: OrgContext) -> QuotasView:
    """List how many GPUs of each model the organisation and its projects may hold at once, and do hold."""
    return QuotasView(quotas=await service.quota_list(cx.tx, cx.policy, cx.org_id))


@operation(
    "PUT",
    "/admin/orgs/{org_id}/quotas",
    permission=P.PLATFORM_MANAGE,
    lane=Lane.ADMIN,
    audit="quota.set",
    errors=(Code.ORG_MISSING, Code.PROJECT_MISSING, Code.GPU_MODEL_UNKNOWN),
)
async def quota_set(cx: PlatformContext, org_id: UUID, wanted: QuotaSet) -> QuotaView:
    """Set how many GPUs of a model an organisation, or one of its projects, may hold at once.

    It holds instead of the policy quota.gpus. What is held stays, even if it is more."""
    return await service.quota_set(cx.tx, cx.actor, OrgId(org_id), wanted)


@operation(
    "DELETE",
    "/admin/orgs/{org_id}/quotas/{quota_id}",
    permission=P.PLATFORM_MANAGE,
    lane=Lane.ADMIN,
    audit="quota.unset",
    errors=(Code.ORG_MISSING, Code.QUOTA_MISSING),
)
async def quota_unset(cx: PlatformContext, org_id: UUID, quota_id: UUID) -> Done:
    """Take a quota away: the policy quota.gpus holds again."""
    await service.quota_unset(cx.tx, OrgId(org_id), quota_id)
    return Done()
