"""policy: see sql/0003_policy.up.sql."""

from gpuaas.infra.postgres.migrate import apply

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    apply("0003_policy.up.sql")


def downgrade() -> None:
    apply("0003_policy.down.sql")
