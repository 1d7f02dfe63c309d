"""SQL of users. Rows are seen by the user himself, by those who share an organisation with him, and by the platform."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.users import OrgMembership, ProjectMembership, UserState
from gpuaas.contracts.permissions import PlatformRole
from gpuaas.domains.identity.users.models import Profile, User
from gpuaas.domains.identity.users.states import LIFE
from gpuaas.infra.postgres.tx import Row, Tx, decode, decode_all
from gpuaas.kit.errors import Conflict, Missing
from gpuaas.kit.ids import UserId

GET = "SELECT * FROM users WHERE id = $1"
BY_SUBJECT = "SELECT * FROM users WHERE issuer = $1 AND subject = $2"
LIST = "SELECT * FROM users WHERE id > $1 AND ($3::text IS NULL OR lower(email) = lower($3)) ORDER BY id LIMIT $2"
# A second login of the same new subject waits here for the first, then finds it done.
INSERT = """
INSERT INTO users (id, issuer, subject, email, email_verified, name) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (issuer, subject) DO NOTHING RETURNING *
"""
RENAME = "UPDATE users SET name = $2 WHERE id = $1 RETURNING *"
# The issuer is the authority on the address; the name is the user's own once he exists.
SEEN = """
UPDATE users SET last_login_at = now(),
    email = CASE WHEN $2 = '' THEN email ELSE $2 END,
    email_verified = CASE WHEN $2 = '' THEN email_verified ELSE $3 END
WHERE id = $1 AND (last_login_at < now() - interval '1 minute' OR ($2 <> '' AND (email, email_verified) <> ($2, $3)))
"""
MOVE = "UPDATE users SET state = $2 WHERE id = $1 AND state = ANY($3) RETURNING *"
ROLES = "UPDATE users SET platform_roles = $2 WHERE id = $1 RETURNING *"
LOCK = "SELECT * FROM users WHERE id = $1 FOR UPDATE"
ORGS = """
SELECT o.id AS org_id, o.name, o.title, o.personal_of IS NOT NULL AS personal, m.role
FROM org_members m JOIN orgs o ON o.id = m.org_id WHERE m.user_id = $1 AND o.deleted_at IS NULL ORDER BY o.id LIMIT 500
"""
PROJECTS = """
SELECT p.id AS project_id, p.org_id, p.name, m.role
FROM project_members m JOIN projects p ON p.id = m.project_id
WHERE m.user_id = $1 AND p.deleted_at IS NULL ORDER BY p.id LIMIT 500
"""


async def get(tx: Tx, user_id: UserId) -> User:
    return _found(await tx.row(GET, user_id))


async def by_subject(tx: Tx, issuer: str, subject: str) -> User | None:
    row = await tx.row(BY_SUBJECT, issuer, subject)
    return None if row is None else decode(User, row)


async def list_all(tx: Tx, *, after: UUID, limit: int, email: str | None) -> list[User]:
    return decode_all(User, await tx.rows(LIST, after, limit, email))


async def insert(tx: Tx, user_id: UserId, profile: Profile) -> User | None:
    row = await tx.row(
        INSERT, user_id, profile.issuer, profile.subject, profile.email, profile.email_verified, profile.name
    )
    return None if row is None else decode(User, row)


async def rename(tx: Tx, user_id: UserId, name: str) -> User:
    return _found(await tx.row(RENAME, user_id, name))


async def seen(tx: Tx, user_id: UserId, *, email: str, email_verified: bool) -> bool:
    return await tx.run(SEEN, user_id, email, email_verified) > 0


async def move(tx: Tx, user_id: UserId, *, to: UserState) -> User:
    row = await tx.row(MOVE, user_id, to, LIFE.sources(to))
    if row is None:
        await get(tx, user_id)
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The user is {to} already.")
    return decode(User, row)


async def set_roles(tx: Tx, user_id: UserId, roles: list[PlatformRole]) -> User:
    return _found(await tx.row(ROLES, user_id, roles))


async def lock(tx: Tx, user_id: UserId) -> User:
    return _found(await tx.row(LOCK, user_id))


async def orgs(tx: Tx, user_id: UserId) -> list[OrgMembership]:
    return decode_all(OrgMembership, await tx.rows(ORGS, user_id))


async def projects(tx: Tx, user_id: UserId) -> list[ProjectMembership]:
    return decode_all(ProjectMembership, await tx.rows(PROJECTS, user_id))


def _found(row: Row | None) -> User:
    if row is None:
        raise Missing(Code.USER_MISSING, "There is no such user.")
    return decode(User, row)
