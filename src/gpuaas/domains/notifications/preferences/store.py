"""SQL of preferences."""

from collections.abc import Sequence
from uuid import UUID

from gpuaas.contracts.http.notifications import EmailWhen
from gpuaas.domains.notifications.preferences.models import Preference
from gpuaas.infra.postgres.tx import Tx, decode_all

OF_USER = "SELECT user_id, kind, email FROM notification_preferences WHERE user_id = $1"
OF_KIND = "SELECT user_id, kind, email FROM notification_preferences WHERE kind = $1 AND user_id = ANY($2)"
SET = """
INSERT INTO notification_preferences (user_id, kind, email) VALUES ($1, $2, $3)
ON CONFLICT (user_id, kind) DO UPDATE SET email = excluded.email, changed_at = now()
"""
UNSET = "DELETE FROM notification_preferences WHERE user_id = $1 AND kind = $2"


async def of_user(tx: Tx, user_id: UUID) -> list[Preference]:
    return decode_all(Preference, await tx.rows(OF_USER, user_id))


async def of_kind(tx: Tx, kind: str, user_ids: Sequence[UUID]) -> list[Preference]:
    return decode_all(Preference, await tx.rows(OF_KIND, kind, list(user_ids)))


async def write(tx: Tx, user_id: UUID, kind: str, email: EmailWhen | None) -> None:
    """None: as the catalogue says."""
    if email is None:
        await tx.run(UNSET, user_id, kind)
    else:
        await tx.run(SET, user_id, kind, email)
