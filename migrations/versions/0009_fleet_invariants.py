"""fleet_invariants: see sql/0009_fleet_invariants.up.sql."""

from gpuaas.infra.postgres.migrate import apply

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    apply("0009_fleet_invariants.up.sql")


def downgrade() -> None:
    apply("0009_fleet_invariants.down.sql")
