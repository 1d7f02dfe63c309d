"""notifications: see sql/0015_notifications.up.sql."""

from gpuaas.infra.postgres.migrate import apply

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    apply("0015_notifications.up.sql")


def downgrade() -> None:
    apply("0015_notifications.down.sql")
