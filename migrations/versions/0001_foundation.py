"""foundation: see sql/0001_foundation.up.sql."""

from gpuaas.infra.postgres.migrate import apply

revision = "0001"
down_revision = None


def upgrade() -> None:
    apply("0001_foundation.up.sql")


def downgrade() -> None:
    apply("0001_foundation.down.sql")
