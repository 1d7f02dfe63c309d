"""The verbs of metrics. A sample is its node and its moment: told again, it counts once."""

from datetime import timedelta
from uuid import UUID

from gpuaas.contracts.http.agent import TellMetrics
from gpuaas.domains.nodes.metrics import store
from gpuaas.domains.nodes.metrics.models import SampleRow
from gpuaas.domains.nodes.plausible import require_plausible
from gpuaas.infra.postgres.tx import Tx

days_make = store.days_make
days_drop = store.days_drop


async def metrics_tell(tx: Tx, node_id: UUID, told: TellMetrics) -> None:
    """Samples from before what is kept, or of a clock that is days ahead, are not kept."""
    for sample in told.samples:
        require_plausible(sample.at, "samples.at")
    await store.add(tx, node_id, told.samples)


async def node_metrics(tx: Tx, node_id: UUID, *, minutes: int, limit: int) -> list[SampleRow]:
    return await store.latest(tx, node_id, within=timedelta(minutes=minutes), limit=limit)
