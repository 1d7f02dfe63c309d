"""SQL of accounts and failed logins.

Failed logins are counted before the password is looked at, in a statement of its own: however many guesses run side by
side, each has paid for its place."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.issuer.accounts.models import Account
from gpuaas.infra.postgres.tx import Row, Tx, conflicts, decode, decode_all
from gpuaas.kit.ids import new_id

_COLUMNS = """id, email, email_verified, name, password_hash, password_version, must_change, created_at,
              password_changed_at, last_login_at"""
BY_EMAIL = f"SELECT {_COLUMNS} FROM issuer_accounts WHERE lower(email) = $1"  # noqa: S608 # our own columns
BY_ID = f"SELECT {_COLUMNS} FROM issuer_accounts WHERE id = $1"  # noqa: S608 # our own columns
LIST = f"""
SELECT {_COLUMNS} FROM issuer_accounts WHERE id > $1 AND ($2::text IS NULL OR lower(email) = $2) ORDER BY id LIMIT $3
"""  # noqa: S608 # our own columns
ADD = f"""
INSERT INTO issuer_accounts (id, email, email_verified, name, password_hash, must_change)
VALUES ($1, $2, $3, $4, $5, $6) RETURNING {_COLUMNS}
"""  # noqa: S608 # our own columns
SET_PASSWORD = f"""
UPDATE issuer_accounts SET password_hash = $2, must_change = $3, password_version = password_version + 1,
    password_changed_at = now()
WHERE id = $1 AND ($4::int IS NULL OR password_version = $4) RETURNING {_COLUMNS}
"""  # noqa: S608 # our own columns
REHASH = "UPDATE issuer_accounts SET password_hash = $2 WHERE id = $1 AND password_version = $3"
LOGGED_IN = "UPDATE issuer_accounts SET last_login_at = now() WHERE id = $1 AND password_version = $2"
# Takes a try, unless the address has to wait. From the n-th failure in a row on, each doubles the wait.
CHARGE = """
INSERT INTO issuer_login_attempts AS a (email_hash, failures, locked_until)
VALUES ($1, 1, now() + CASE WHEN $2 <= 1 THEN interval '2 seconds' ELSE interval '0' END)
ON CONFLICT (email_hash) DO UPDATE SET
    failures = CASE WHEN a.last_at < now() - interval '1 day' THEN 1 ELSE least(a.failures + 1, 1000) END,
    locked_until = CASE WHEN a.last_at < now() - interval '1 day' OR a.failures + 1 < $2 THEN now()
                        ELSE now() + least($3, power(2, least(a.failures + 2 - $2, 20))) * interval '1 second' END,
    last_at = now()
WHERE a.locked_until <= now()
RETURNING failures
"""
WAIT = """
SELECT extract(epoch FROM locked_until - now())::float8 AS seconds FROM issuer_login_attempts WHERE email_hash = $1
"""
FORGIVE = "DELETE FROM issuer_login_attempts WHERE email_hash = $1"
PRUNE_ATTEMPTS = """
DELETE FROM issuer_login_attempts WHERE last_at < now() - interval '1 day' AND locked_until < now()
"""


async def by_email(tx: Tx, email: str) -> Account | None:
    row = await tx.row(BY_EMAIL, email)
    return None if row is None else decode(Account, row)


async def by_id(tx: Tx, account_id: UUID) -> Account | None:
    row = await tx.row(BY_ID, account_id)
    return None if row is None else decode(Account, row)


async def page(tx: Tx, after: UUID, email: str | None, limit: int) -> list[Account]:
    return decode_all(Account, await tx.rows(LIST, after, email, limit))


async def add(tx: Tx, *, email: str, email_verified: bool, name: str, password_hash: str, must_change: bool) -> Account:
    with conflicts({"issuer_accounts_one_email": Code.ISSUER_ACCOUNT_EXISTS}):
        row = await tx.row(ADD, new_id(), email, email_verified, name, password_hash, must_change)
    return _one(row)


async def set_password(
    tx: Tx, account_id: UUID, password_hash: str, *, must_change: bool, from_version: int | None = None
) -> Account | None:
    row = await tx.row(SET_PASSWORD, account_id, password_hash, must_change, from_version)
    return None if row is None else decode(Account, row)


async def rehash(tx: Tx, account: Account, password_hash: str) -> None:
    await tx.run(REHASH, account.id, password_hash, account.password_version)


async def logged_in(tx: Tx, account: Account) -> bool:
    """False when the password was changed since the account was read."""
    return await tx.run(LOGGED_IN, account.id, account.password_version) > 0


async def forgive(tx: Tx, email_hash: bytes) -> None:
    await tx.run(FORGIVE, email_hash)


async def prune_attempts(tx: Tx) -> int:
    return await tx.run(PRUNE_ATTEMPTS)


def _one(row: Row | None) -> Account:
    assert row is not None  # noqa: S101 # INSERT … RETURNING answers or raises
    return decode(Account, row)
