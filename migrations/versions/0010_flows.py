"""flows: see sql/0010_flows.up.sql."""

from gpuaas.infra.postgres.migrate import apply

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    apply("0010_flows.up.sql")


def downgrade() -> None:
    apply("0010_flows.down.sql")
