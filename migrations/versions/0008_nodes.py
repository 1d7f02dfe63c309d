"""nodes: see sql/0008_nodes.up.sql."""

from gpuaas.infra.postgres.migrate import apply

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    apply("0008_nodes.up.sql")


def downgrade() -> None:
    apply("0008_nodes.down.sql")
