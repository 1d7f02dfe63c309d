"""meters: see sql/0013_meters*.up.sql: metering, and what must hold between allocations and their money."""

from gpuaas.infra.postgres.migrate import apply

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    apply("0013_meters.up.sql")
    apply("0013_meters.allocations.up.sql")


def downgrade() -> None:
    apply("0013_meters.down.sql")
