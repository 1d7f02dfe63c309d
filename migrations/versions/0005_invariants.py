"""invariants: see sql/0005_invariants.up.sql."""

from gpuaas.infra.postgres.migrate import apply

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    apply("0005_invariants.up.sql")


def downgrade() -> None:
    apply("0005_invariants.down.sql")
