"""identity: see sql/0002_identity.up.sql."""

from gpuaas.infra.postgres.migrate import apply

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    apply("0002_identity.up.sql")


def downgrade() -> None:
    apply("0002_identity.down.sql")
