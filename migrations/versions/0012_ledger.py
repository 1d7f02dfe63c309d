"""ledger: see sql/0012_ledger*.up.sql: tables and walls, posting, holds, what must hold."""

from gpuaas.infra.postgres.migrate import apply

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    apply("0012_ledger.up.sql")
    apply("0012_ledger.post.up.sql")
    apply("0012_ledger.holds.up.sql")
    apply("0012_ledger.invariants.up.sql")


def downgrade() -> None:
    apply("0012_ledger.down.sql")
