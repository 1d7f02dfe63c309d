"""The verbs of metrics. A batch that is told again counts once."""

from datetime import timedelta
from uuid import UUID

from gpuaas.contracts.http.agent import TellMetrics
from gpuaas.domains.nodes.metrics import store
from gpuaas.domains.nodes.metrics.models import SampleRow
from gpuaas.domains.nodes.plausible import require_plausible
from gpuaas.infra.postgres.tx import Tx

prune = store.prune


async def metrics_tell(tx: Tx, node_id: UUID, told: TellMetrics) -> bool:
    for sample in told.samples:
        require_plausible(sample.at, "samples.at")
    if not await store.take(tx, node_id, told.batch_id):
        return False
    await store.add(tx, node_id, told.samples)
    return True


async def node_metrics(tx: Tx, node_id: UUID, *, minutes: int, limit: int) -> list[SampleRow]:
    return await store.latest(tx, node_id, within=timedelta(minutes=minutes), limit=limit)
