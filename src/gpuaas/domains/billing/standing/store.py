"""SQL of standings: for many organisations at once. One statement writes a rung, and names the one it comes from."""

from collections.abc import Sequence
from datetime import datetime

from gpuaas.domains.billing.standing.ladder import Step
from gpuaas.domains.billing.standing.models import Facts, Place, Standing
from gpuaas.domains.billing.standing.states import LIFE
from gpuaas.infra.postgres.tx import Tx, decode, decode_all
from gpuaas.kit.ids import OrgId

OF = "SELECT state AS rung, state_since AS since, due_at FROM standings WHERE org_id = $1 AND currency = $2"
WATCHED = """
SELECT org_id, currency FROM (
    SELECT org_id, currency FROM meters WHERE settled_at IS NULL AND org_id >= $1
    UNION SELECT org_id, currency FROM standings WHERE state <> 'good' AND org_id >= $1
) AS w WHERE (org_id, currency) > ($1, $2) ORDER BY org_id, currency LIMIT $3
"""
OF_ORG = """
SELECT org_id, currency FROM ledger_accounts WHERE org_id = $1 AND kind = 'tenant'
UNION SELECT org_id, currency FROM meters WHERE org_id = $1 AND settled_at IS NULL
UNION SELECT org_id, currency FROM standings WHERE org_id = $1 ORDER BY org_id, currency
"""
AT = "SELECT org_id, currency FROM standings WHERE state = ANY($1) ORDER BY org_id, currency"
LOCK = """
WITH wanted AS (SELECT * FROM unnest($1::uuid[], $2::text[]) AS w (org_id, currency) ORDER BY org_id, currency)
INSERT INTO standings (org_id, currency) SELECT org_id, currency FROM wanted ON CONFLICT DO NOTHING
"""
LOCKED = """
SELECT FROM standings s JOIN unnest($1::uuid[], $2::text[]) AS w (org_id, currency)
    ON w.org_id = s.org_id AND w.currency = s.currency
ORDER BY s.org_id, s.currency FOR UPDATE OF s
"""
FACTS = """
SELECT w.org_id, w.currency, coalesce(s.state, 'good') AS rung, s.state_since AS since, s.due_at, s.counting_since,
       coalesce(s.told, 0)::integer AS told, coalesce(s.entered_micros, 0) AS entered_micros, s.paused_until,
       clock_timestamp() AS now,
       coalesce((ledger_head(a.id)).balance_micros, 0) AS balance_micros, coalesce(a.floor_micros, 0) AS floor_micros,
       coalesce(b.unposted_micros, 0) AS unposted_micros, coalesce(b.micros_per_hour, 0) AS burn_micros_per_hour,
       coalesce(b.open_micros_per_hour, 0) AS open_micros_per_hour, coalesce(b.running, 0) AS running
FROM unnest($1::uuid[], $2::text[]) AS w (org_id, currency)
LEFT JOIN standings s ON s.org_id = w.org_id AND s.currency = w.currency
LEFT JOIN ledger_accounts a ON a.org_id = w.org_id AND a.kind = 'tenant' AND a.currency = w.currency
LEFT JOIN (SELECT * FROM meter_burn WHERE org_id = ANY($1::uuid[])) AS b
    ON b.org_id = w.org_id AND b.currency = w.currency
ORDER BY w.org_id, w.currency
"""
MOVE = """
UPDATE standings s SET state = n.rung, due_at = n.due_at, counting_since = n.counting_since, told = n.told,
    entered_micros = n.entered_micros,
    state_since = CASE WHEN n.rung = n.was THEN s.state_since ELSE clock_timestamp() END
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::smallint[],
            $8::bigint[]) AS n (org_id, currency, was, rung, due_at, counting_since, told, entered_micros)
WHERE s.org_id = n.org_id AND s.currency = n.currency AND s.state = n.was
"""
PAUSE = """
UPDATE standings SET paused_until = $3, paused_by = $4, pause_reason = $5 WHERE org_id = $1 AND currency = $2
"""


async def of(tx: Tx, place: Place) -> Standing:
    row = await tx.row(OF, place.org_id, place.currency)
    return Standing() if row is None else decode(Standing, row)


async def watched(tx: Tx, after: Place, *, limit: int) -> list[Place]:
    """Those with something that costs, and those that are not good: in order, after one."""
    return decode_all(Place, await tx.rows(WATCHED, after.org_id, after.currency, limit))


async def of_org(tx: Tx, org_id: OrgId) -> list[Place]:
    return decode_all(Place, await tx.rows(OF_ORG, org_id))


async def at(tx: Tx, rungs: Sequence[str]) -> list[Place]:
    return decode_all(Place, await tx.rows(AT, list(rungs)))


async def facts(tx: Tx, places: Sequence[Place]) -> list[Facts]:
    return decode_all(Facts, await tx.rows(FACTS, *_columns(places)))


async def locked_facts(tx: Tx, places: Sequence[Place]) -> list[Facts]:
    """Their rows are ours until the end of the transaction; the money is looked at after that."""
    await tx.run(LOCK, *_columns(places))
    await tx.rows(LOCKED, *_columns(places))
    return await facts(tx, places)


async def move(tx: Tx, steps: Sequence[tuple[Facts, Step]]) -> None:
    """Of rows that are locked."""
    for known, step in steps:
        if step.rung is not known.rung and step.rung not in LIFE.table[known.rung].to:
            raise ValueError(f"a standing does not go from {known.rung} to {step.rung}")
    moved = await tx.run(
        MOVE,
        [known.org_id for known, _ in steps],
        [known.currency for known, _ in steps],
        [known.rung for known, _ in steps],
        [step.rung for _, step in steps],
        [step.due_at for _, step in steps],
        [step.counting_since for _, step in steps],
        [step.told for _, step in steps],
        [step.entered_micros for _, step in steps],
    )
    assert moved == len(steps)  # noqa: S101 # nobody else could have changed what is locked


async def pause(tx: Tx, place: Place, *, until: datetime | None, by: str, reason: str) -> None:
    await tx.run(PAUSE, place.org_id, place.currency, until, by, reason)


def _columns(places: Sequence[Place]) -> tuple[list[OrgId], list[str]]:
    return [place.org_id for place in places], [place.currency for place in places]
