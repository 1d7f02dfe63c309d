"""meters: see sql/0013_meters.up.sql."""

from gpuaas.infra.postgres.migrate import apply

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    apply("0013_meters.up.sql")


def downgrade() -> None:
    apply("0013_meters.down.sql")
