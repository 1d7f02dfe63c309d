"""allocations: see sql/0011_allocations.up.sql."""

from gpuaas.infra.postgres.migrate import apply

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    apply("0011_allocations.up.sql")


def downgrade() -> None:
    apply("0011_allocations.down.sql")
