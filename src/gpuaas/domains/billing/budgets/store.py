"""SQL of budgets. What is spent is asked of the meters, by the database's clock; months are UTC's."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.budgets import BudgetSet
from gpuaas.domains.billing.budgets.models import Budget, Mark
from gpuaas.infra.postgres.tx import Tx, decode, decode_all
from gpuaas.kit.errors import Missing
from gpuaas.kit.ids import OrgId, ProjectId, new_id

_FOUND = """
SELECT b.id, b.org_id, b.project_id, p.name AS project, b.currency, b.soft_micros, b.hard_micros, b.set_by, b.set_at,
       (t.month AT TIME ZONE 'UTC')::date AS month, t.now,
       project_spent(b.project_id, b.currency, t.month, t.now) AS spent_micros,
       (SELECT k.due_at FROM budget_marks k
        WHERE k.project_id = b.project_id AND k.currency = b.currency AND k.month = (t.month AT TIME ZONE 'UTC')::date
          AND k.of_limit = 'hard' AND k.percent = 100 AND k.limit_micros = b.hard_micros) AS stops_at,
       ARRAY(SELECT k.of_limit || ' ' || k.percent || ' ' || k.limit_micros FROM budget_marks k
             WHERE k.project_id = b.project_id AND k.currency = b.currency
               AND k.month = (t.month AT TIME ZONE 'UTC')::date) AS known
FROM budgets b JOIN projects p ON p.id = b.project_id
CROSS JOIN (SELECT month_of(now) AS month, now FROM (SELECT clock_timestamp() AS now OFFSET 0) AS c) AS t
"""
GET = _FOUND + "WHERE b.org_id = $1 AND b.id = $2"
LIST = (
    _FOUND + "WHERE b.org_id = $1 AND b.id < $2 AND ($3::uuid IS NULL OR b.project_id = $3) ORDER BY b.id DESC LIMIT $4"
)
PAGE = _FOUND + "WHERE b.id > $1 ORDER BY b.id LIMIT $2"
OF_PROJECT = _FOUND + "WHERE b.project_id = $1 AND b.currency = $2"
OVERDUE = (
    _FOUND
    + """
WHERE b.hard_micros IS NOT NULL AND EXISTS (
    SELECT FROM budget_marks k
    WHERE k.project_id = b.project_id AND k.currency = b.currency AND k.month = (t.month AT TIME ZONE 'UTC')::date
      AND k.of_limit = 'hard' AND k.limit_micros = b.hard_micros AND k.due_at <= t.now)
ORDER BY b.id
"""
)
SET = """
INSERT INTO budgets (id, org_id, project_id, currency, soft_micros, hard_micros, set_by)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT ON CONSTRAINT budgets_one DO UPDATE SET soft_micros = excluded.soft_micros,
    hard_micros = excluded.hard_micros, set_by = excluded.set_by, set_at = now()
RETURNING id
"""
DELETE = "DELETE FROM budgets WHERE org_id = $1 AND id = $2 RETURNING id"
MARK = """
INSERT INTO budget_marks (org_id, project_id, currency, month, of_limit, percent, limit_micros, spent_micros,
                          reached_at, due_at)
SELECT $1, $2, $3, $4, m.of_limit, m.percent, m.limit_micros, $5, clock_timestamp(),
       CASE WHEN m.of_limit = 'hard' THEN clock_timestamp() + $6::interval END
FROM unnest($7::text[], $8::smallint[], $9::bigint[]) AS m (of_limit, percent, limit_micros)
ON CONFLICT DO NOTHING RETURNING of_limit AS limit, percent, limit_micros, due_at
"""


async def put(tx: Tx, org_id: OrgId, wanted: BudgetSet, *, by: str) -> UUID:
    asked = (wanted.currency, wanted.soft_micros, wanted.hard_micros)
    found: UUID = await tx.value(SET, new_id(), org_id, wanted.project_id, *asked, by)
    return found


async def get(tx: Tx, org_id: OrgId, budget_id: UUID) -> Budget:
    row = await tx.row(GET, org_id, budget_id)
    if row is None:
        raise Missing(Code.BUDGET_MISSING, "There is no such budget here.")
    return decode(Budget, row)


async def list_of_org(tx: Tx, org_id: OrgId, *, before: UUID, project_id: UUID | None, limit: int) -> list[Budget]:
    return decode_all(Budget, await tx.rows(LIST, org_id, before, project_id, limit))


async def page(tx: Tx, after: UUID, *, limit: int) -> list[Budget]:
    return decode_all(Budget, await tx.rows(PAGE, after, limit))


async def of_project(tx: Tx, project_id: ProjectId, currency: str) -> Budget | None:
    row = await tx.row(OF_PROJECT, project_id, currency)
    return None if row is None else decode(Budget, row)


async def overdue(tx: Tx) -> list[Budget]:
    """Their hard limit was reached this month, and its grace is over."""
    return decode_all(Budget, await tx.rows(OVERDUE))


async def delete(tx: Tx, org_id: OrgId, budget_id: UUID) -> None:
    if await tx.row(DELETE, org_id, budget_id) is None:
        raise Missing(Code.BUDGET_MISSING, "There is no such budget here.")


async def mark(tx: Tx, budget: Budget, reached: Sequence[Mark], *, grace: timedelta) -> list[Mark]:
    """Those that nobody else has marked meanwhile."""
    rows = await tx.rows(
        MARK,
        budget.org_id,
        budget.project_id,
        budget.currency,
        budget.month,
        budget.spent_micros,
        grace,
        [one.limit for one in reached],
        [one.percent for one in reached],
        [one.limit_micros for one in reached],
    )
    return decode_all(Mark, rows)
