"""pki: see sql/0006_pki.up.sql."""

from gpuaas.infra.postgres.migrate import apply

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    apply("0006_pki.up.sql")


def downgrade() -> None:
    apply("0006_pki.down.sql")
