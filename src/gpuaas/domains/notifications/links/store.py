"""SQL of one-click links."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from gpuaas.domains.notifications.links.models import Link
from gpuaas.infra.postgres.tx import Tx, decode
from gpuaas.kit.ids import LinkId

# ruff: noqa: S608 - statements are made of the constants above them; every value is a parameter
_ROW = "*, expires_at <= now() AS expired"
GET = f"SELECT {_ROW} FROM action_links WHERE id = $1"
LOCK = f"SELECT {_ROW} FROM action_links WHERE id = $1 FOR UPDATE"
INSERT = """
INSERT INTO action_links (id, org_id, user_id, action, subject_id, detail, expires_at)
SELECT l.id, $3, l.user_id, l.action, $4, l.detail, now() + make_interval(hours => $5)
FROM unnest($1::uuid[], $2::uuid[], $6::text[], $7::text[]) AS l (id, user_id, action, detail)
"""
USE = "UPDATE action_links SET used_at = now(), outcome = $2 WHERE id = $1 AND used_at IS NULL"
PRUNE = """
DELETE FROM action_links WHERE id IN (
    SELECT id FROM action_links WHERE id < $1 AND expires_at < now() ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)
"""


class NewLink(msgspec.Struct, frozen=True):
    id: UUID
    user_id: UUID
    action: str
    detail: str = ""


async def insert(tx: Tx, org_id: UUID, subject_id: UUID | None, links: Sequence[NewLink], *, hours: int) -> None:
    await tx.run(
        INSERT,
        [link.id for link in links],
        [link.user_id for link in links],
        org_id,
        subject_id,
        hours,
        [link.action for link in links],
        [link.detail for link in links],
    )


async def find(tx: Tx, link_id: LinkId, *, lock: bool = False) -> Link | None:
    row = await tx.row(LOCK if lock else GET, link_id)
    return None if row is None else decode(Link, row)


async def use(tx: Tx, link_id: LinkId, outcome: str) -> None:
    """It has done its work. Whoever uses it holds its row's lock."""
    await tx.run(USE, link_id, outcome[:500])


async def prune(tx: Tx, *, before: UUID, limit: int) -> int:
    return await tx.run(PRUNE, before, limit)
