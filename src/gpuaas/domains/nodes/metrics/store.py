"""SQL of metrics. A sample goes to the day it was taken; one of a day that is not kept goes nowhere."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from gpuaas.contracts.http.agent import Sample
from gpuaas.domains.nodes.metrics.models import SampleRow
from gpuaas.infra.postgres.tx import Tx, decode_all

ADD = """
INSERT INTO node_metrics (node_id, at, values)
SELECT $1, s.at, s.values FROM unnest($2::timestamptz[], $3::jsonb[]) AS s (at, values)
WHERE to_regclass('node_metrics_p' || to_char(s.at AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NOT NULL
ON CONFLICT DO NOTHING
"""
LATEST = """
SELECT at, values FROM node_metrics WHERE node_id = $1 AND at > now() - $2::interval ORDER BY at DESC LIMIT $3
"""
ENSURE_DAYS = "SELECT ensure_metric_days($1, $2)"
PRUNE_DAYS = "SELECT prune_metric_days($1)"


async def add(tx: Tx, node_id: UUID, samples: Sequence[Sample]) -> None:
    values = [msgspec.json.encode(sample.values).decode() for sample in samples]
    await tx.run(ADD, node_id, [sample.at for sample in samples], values)


async def latest(tx: Tx, node_id: UUID, *, within: timedelta, limit: int) -> list[SampleRow]:
    return decode_all(SampleRow, await tx.rows(LATEST, node_id, within, limit))


async def days_make(tx: Tx, *, first: datetime, days: int) -> int:
    return int(await tx.value(ENSURE_DAYS, first, days))


async def days_drop(tx: Tx, *, before: datetime) -> int:
    return int(await tx.value(PRUNE_DAYS, before))
