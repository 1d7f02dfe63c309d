"""The verbs of timelines."""

from gpuaas.domains.allocations.models import Allocation
from gpuaas.domains.allocations.timeline import store
from gpuaas.domains.allocations.watching.service import subject_of
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import log

MAX_DETAIL = 500

moments = store.moments
tasks = store.tasks


async def timeline_add(tx: Tx, allocation: Allocation, phase: str, detail: str = "") -> None:
    """Note what happened, in the same commit; whoever watches is told."""
    await store.add(
        tx,
        allocation.org_id,
        allocation.id,
        phase=phase,
        detail=log.scrub_text(detail)[:MAX_DETAIL],
        actor=tx.actor_name,
        correlation_id=log.correlation_id.get() or allocation.correlation_id,
    )
    tx.hint(subject_of(allocation.id))
