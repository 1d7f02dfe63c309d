"""issuer: see sql/0004_issuer.up.sql."""

from gpuaas.infra.postgres.migrate import apply

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    apply("0004_issuer.up.sql")


def downgrade() -> None:
    apply("0004_issuer.down.sql")
