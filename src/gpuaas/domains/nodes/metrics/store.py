"""SQL of metrics."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from gpuaas.contracts.http.agent import Sample
from gpuaas.domains.nodes.metrics.models import SampleRow
from gpuaas.infra.postgres.tx import Tx, decode_all
from gpuaas.kit.ids import new_id

TAKE = "INSERT INTO node_metric_batches (node_id, batch_id) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING true"
ADD = """
INSERT INTO node_metrics (id, node_id, at, values)
SELECT s.id, $1, s.at, s.values FROM unnest($2::uuid[], $3::timestamptz[], $4::jsonb[]) AS s (id, at, values)
"""
LATEST = """
SELECT at, values FROM node_metrics WHERE node_id = $1 AND at > now() - $2::interval ORDER BY at DESC LIMIT $3
"""
PRUNE = "DELETE FROM node_metrics WHERE id IN (SELECT id FROM node_metrics WHERE id < $1 ORDER BY id LIMIT $2)"
PRUNE_BATCHES = """
DELETE FROM node_metric_batches WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM node_metric_batches WHERE received_at < $1 ORDER BY received_at LIMIT $2))
"""


async def take(tx: Tx, node_id: UUID, batch_id: UUID) -> bool:
    """Whether the batch is new."""
    return bool(await tx.value(TAKE, node_id, batch_id))


async def add(tx: Tx, node_id: UUID, samples: Sequence[Sample]) -> None:
    values = [msgspec.json.encode(sample.values).decode() for sample in samples]
    await tx.run(ADD, node_id, [new_id() for _ in samples], [sample.at for sample in samples], values)


async def latest(tx: Tx, node_id: UUID, *, within: timedelta, limit: int) -> list[SampleRow]:
    return decode_all(SampleRow, await tx.rows(LATEST, node_id, within, limit))


async def prune(tx: Tx, *, before: UUID, batches_before: datetime, limit: int) -> int:
    return max(await tx.run(PRUNE, before, limit), await tx.run(PRUNE_BATCHES, batches_before, limit))
