"""The verbs of quotas: how many GPUs of a model, and how many allocations, an organisation and a project may have at
once.

Always holds: requests of one organisation are counted one after the other, so that none slips past a quota; what waits
holds no GPU and is counted when it is placed."""

from uuid import UUID

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.allocations import QuotaSet, QuotaView
from gpuaas.domains.allocations.quotas import limits, store
from gpuaas.domains.allocations.quotas.models import Quota
from gpuaas.domains.identity.orgs import service as orgs
from gpuaas.domains.identity.projects import service as projects
from gpuaas.domains.inventory import service as inventory
from gpuaas.domains.inventory.models import Sku
from gpuaas.infra.postgres.tx import NIL, Tx
from gpuaas.kit.errors import Conflict, Detail, Refused
from gpuaas.kit.ids import OrgId, ProjectId
from gpuaas.ports.policy import PolicyReader

MAX_SKUS = 1_000


async def quota_check(tx: Tx, policy: PolicyReader, org_id: OrgId, project_id: ProjectId, sku: Sku, gpus: int) -> None:
    """Refuse what would be too much; for the request that is about to be written."""
    await _check(tx, policy, org_id, project_id, sku, gpus, new=True)


async def quota_check_waiting(
    tx: Tx, policy: PolicyReader, org_id: OrgId, project_id: ProjectId, sku: Sku, gpus: int
) -> None:
    """The same for one that waits: it lives already, and holds nothing yet."""
    await _check(tx, policy, org_id, project_id, sku, gpus, new=False)


async def _check(
    tx: Tx, policy: PolicyReader, org_id: OrgId, project_id: ProjectId, sku: Sku, gpus: int, *, new: bool
) -> None:
    await store.take_turn(tx, org_id)
    used, allowed = await store.used(tx, org_id, project_id, sku.gpu_model), _allowed(policy, org_id, project_id)
    why = limits.refusal(limits.gpu_limits(used, allowed, sku.gpu_model), gpus)
    if why is None and new:
        why = limits.refusal(limits.allocation_limits(used, allowed), 1)
    if why is not None:
        raise Conflict(Code.QUOTA_EXCEEDED, why)


async def quota_left(tx: Tx, policy: PolicyReader, org_id: OrgId, project_id: ProjectId, sku: Sku) -> int:
    """GPUs of the SKU's model that may still be held."""
    used = await store.used(tx, org_id, project_id, sku.gpu_model)
    return limits.left(limits.gpu_limits(used, _allowed(policy, org_id, project_id), sku.gpu_model))


def _allowed(policy: PolicyReader, org_id: OrgId, project_id: ProjectId) -> limits.Allowed:
    return limits.Allowed(
        org_gpus=policy.number("quota.gpus", org_id),
        project_gpus=policy.number("quota.gpus", org_id, project_id),
        org_allocations=policy.number("quota.allocations", org_id),
        project_allocations=policy.number("quota.allocations", org_id, project_id),
    )


async def quota_list(tx: Tx, policy: PolicyReader, org_id: OrgId) -> list[QuotaView]:
    """Of each model that is sold, held or limited: the organisation's, then those of projects that were set."""
    rows, held = await store.list_of_org(tx, org_id), await store.held(tx, org_id)
    sold = {sku.gpu_model for sku in await inventory.skus(tx, after=NIL, state=None, region=None, limit=MAX_SKUS)}
    by_policy = policy.number("quota.gpus", org_id)
    views: list[QuotaView] = []
    for model in sorted(sold | {row.gpu_model for row in rows} | {model for model, _ in held}):
        of_model = [row for row in rows if row.gpu_model == model]
        if not any(row.project_id is None for row in of_model):
            total = _used(held, model, None)
            views.append(
                QuotaView(id=None, gpu_model=model, project_id=None, gpus=by_policy, used=total, set_by="policy")
            )
        views += [view(row, used=_used(held, model, row.project_id)) for row in of_model]
    return views


async def quota_set(tx: Tx, actor: Actor, org_id: OrgId, wanted: QuotaSet) -> QuotaView:
    """By the operator: instead of what the policy says."""
    await tx.enter_org(org_id)
    await orgs.lock(tx, org_id)
    if wanted.project_id is not None:
        await projects.project_get(tx, ProjectId(wanted.project_id))
    sold = await inventory.skus(tx, after=NIL, state=None, region=None, limit=MAX_SKUS)
    if wanted.gpu_model not in {sku.gpu_model for sku in sold}:
        raise Refused(
            Code.GPU_MODEL_UNKNOWN,
            "No SKU has GPUs of this model: a quota of it would hold for nothing.",
            details=[Detail("gpu_model", "not the gpu_model of any SKU")],
        )
    row = await store.put(
        tx,
        org_id,
        None if wanted.project_id is None else ProjectId(wanted.project_id),
        gpu_model=wanted.gpu_model,
        gpus=wanted.gpus,
        set_by=actor.email or actor.name,
    )
    return view(row, used=_used(await store.held(tx, org_id), row.gpu_model, row.project_id))


async def quota_unset(tx: Tx, org_id: OrgId, quota_id: UUID) -> None:
    """What the policy says holds again."""
    await tx.enter_org(org_id)
    await orgs.lock(tx, org_id)
    await store.unset(tx, org_id, quota_id)


def view(row: Quota, *, used: int) -> QuotaView:
    return QuotaView(
        id=row.id, gpu_model=row.gpu_model, project_id=row.project_id, gpus=row.gpus, used=used, set_by=row.set_by
    )


def _used(held: dict[tuple[str, UUID], int], model: str, project_id: UUID | None) -> int:
    return sum(gpus for (of, where), gpus in held.items() if of == model and project_id in (None, where))
