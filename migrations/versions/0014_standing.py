"""standing: see sql/0014_standing.up.sql."""

from gpuaas.infra.postgres.migrate import apply

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    apply("0014_standing.up.sql")
    apply("0014_standing.budgets.up.sql")


def downgrade() -> None:
    apply("0014_standing.down.sql")
