"""Money of long ago: an organisation's transactions moved into the past by a superuser, who makes every number, balance
and hash after it again, so that the books hold. The ledger itself writes only now."""

from datetime import timedelta
from typing import Any
from uuid import UUID

MOVE = """
CREATE TEMPORARY TABLE moved ON COMMIT DROP AS
SELECT t.id AS was, overlay(floor_id(t.at - $2::interval)::text PLACING substr(t.id::text, 15) FROM 15)::uuid AS now_is
FROM ledger_transactions t WHERE t.org_id = $1
"""
FOLLOW = (
    "UPDATE ledger_transactions t SET id = m.now_is, at = uuid_extract_timestamp(m.now_is) FROM moved m "
    "WHERE t.id = m.was",
    "UPDATE ledger_entries e SET transaction_id = m.now_is FROM moved m WHERE e.transaction_id = m.was",
    "UPDATE ledger_keys k SET transaction_id = m.now_is FROM moved m WHERE k.transaction_id = m.was",
    "UPDATE usage u SET transaction_id = m.now_is, "
    "id = overlay(m.now_is::text PLACING substr(u.id::text, 15) FROM 15)::uuid "
    "FROM moved m WHERE u.transaction_id = m.was",
    "UPDATE ledger_entries e SET number = n.number, balance_micros = n.balance FROM ("
    "  SELECT account_id, transaction_id, row_number() OVER along AS number, sum(amount_micros) OVER along AS balance"
    "  FROM ledger_entries WINDOW along AS (PARTITION BY account_id ORDER BY transaction_id)) AS n"
    " WHERE (e.account_id, e.transaction_id) = (n.account_id, n.transaction_id)",
    """
    DO $$
    DECLARE one record; before bytea; account uuid;
    BEGIN
        FOR one IN SELECT e.*, ledger_body(t.id, t.at, t.kind, t.key, t.org_id, t.currency, t.subject_id, t.reason,
                                           t.reverses_id, t.actor, t.correlation_id) AS body
                   FROM ledger_entries e JOIN ledger_transactions t ON t.id = e.transaction_id
                   ORDER BY e.account_id, e.transaction_id LOOP
            IF account IS DISTINCT FROM one.account_id THEN
                before := NULL;
            END IF;
            account := one.account_id;
            before := ledger_hash(before, one.body, account, one.number, one.amount_micros, one.balance_micros);
            UPDATE ledger_entries SET hash = before
            WHERE account_id = account AND transaction_id = one.transaction_id;
        END LOOP;
    END $$""",
)


async def move_back(superuser: Any, org_id: UUID, by: timedelta) -> None:
    """All that the organisation's balance ever was."""
    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")
        await superuser.execute("SET LOCAL TIME ZONE 'UTC'")
        for table in ("ledger_transactions", "ledger_entries", "usage"):
            await superuser.fetchval("SELECT ensure_partitions($1, now() - $2::interval, 6)", table, 4 * by)
        await superuser.execute(MOVE.replace("$1", f"'{org_id}'").replace("$2", f"'{by.total_seconds()} seconds'"))
        for statement in FOLLOW:
            await superuser.execute(statement)
