"""invoices: see sql/0017_invoices*.up.sql: papers, and the sides of the equations."""

from gpuaas.infra.postgres.migrate import apply

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    apply("0017_invoices.up.sql")
    apply("0017_invoices.proof.up.sql")


def downgrade() -> None:
    apply("0017_invoices.down.sql")
