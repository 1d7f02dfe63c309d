"""payments: see sql/0016_payments.up.sql."""

from gpuaas.infra.postgres.migrate import apply

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    apply("0016_payments.up.sql")


def downgrade() -> None:
    apply("0016_payments.down.sql")
