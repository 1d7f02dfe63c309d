"""Money for the organisations of tests: worlds give it to theirs, so that they can ask for GPUs.

One without: a new organisation that nobody gave anything (`City.org`), or one whose money `taken` took."""

from typing import Any
from uuid import UUID

from gpuaas.contracts.http.billing import AccountKind, PostingKind
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import Posting, between
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.ids import OrgId, new_id

MICROS = 1_000_000
PLENTY = 1_000_000 * MICROS
_BY_SQL = """
SELECT transaction_id FROM (SELECT set_config('app.org_id', '*', false)) AS seen,
LATERAL ledger_post('credit', $1, $2, 'USD', '{tenant,credits}', ARRAY[$3::bigint, -$3::bigint], NULL, 'a test', NULL,
                    'test', 'test')
"""


async def given(db: Database, org_id: UUID | str, micros: int = PLENTY) -> None:
    """A credit: nobody has paid it."""
    async with db.transaction(Sight(PLATFORM), "test") as tx:
        await ledger.post(
            tx,
            Posting(
                kind=PostingKind.CREDIT,
                key=new_id().hex,
                org_id=OrgId(UUID(str(org_id))),
                legs=between(micros, AccountKind.CREDITS),
                reason="a test",
            ),
        )


async def given_by_sql(sql: Any, org_id: UUID | str, micros: int = PLENTY) -> None:
    """The same, on a superuser's connection: through the database's function, for there is no other way."""
    await sql.fetchval(_BY_SQL, new_id().hex, UUID(str(org_id)), micros)


async def backdated(sql: Any, subject_id: UUID, seconds: int) -> None:
    """Let a meter that was not billed yet have begun so much earlier: past the product, which has no way to do that."""
    await sql.execute(
        "UPDATE meters SET opened_at = opened_at - make_interval(secs => $2), "
        "billed_until = billed_until - make_interval(secs => $2) WHERE subject_id = $1 AND billed_number = 0",
        subject_id,
        seconds,
    )


async def taken(db: Database, org_id: UUID | str, *, leaves: int = 0) -> None:
    """All it could spend but so much."""
    org = OrgId(UUID(str(org_id)))
    async with db.transaction(Sight(PLATFORM), "test") as tx:
        spare = (await ledger.balance_at(tx, org)).available_micros - leaves
        if spare > 0:
            await ledger.post(
                tx,
                Posting(
                    kind=PostingKind.REFUND,
                    key=new_id().hex,
                    org_id=org,
                    legs=between(-spare, AccountKind.REFUNDS),
                    reason="a test",
                ),
            )
