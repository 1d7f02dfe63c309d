"""inventory: see sql/0007_inventory.up.sql."""

from gpuaas.infra.postgres.migrate import apply

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    apply("0007_inventory.up.sql")


def downgrade() -> None:
    apply("0007_inventory.down.sql")
