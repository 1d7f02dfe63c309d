"""Verbs about logins: checking a password, making, changing and resetting one.

Always holds: an unknown address costs as much time as a known one and is answered in the same words; a password is
hashed outside of any transaction; a changed password ends what was opened with the old one (see `issuer.service`)."""

from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.issuer.accounts import store
from gpuaas.domains.issuer.accounts.models import Account
from gpuaas.domains.issuer.accounts.password_rules import (
    MAX_LENGTH,
    normal,
    normal_email,
    problem,
    temporary,
)
from gpuaas.infra.passwords import Passwords, hash_now
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Sight, Tx
from gpuaas.kit.errors import Detail, Missing, Refused
from gpuaas.kit.secrets import token_hash
from gpuaas.ports.policy import PolicyReader

MAX_EMAIL = 254


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of trying a password: an account, or none; or the seconds to wait before the next try."""

    email: str
    account: Account | None = None
    wait_seconds: float = 0.0
    new_hash: str | None = None


async def login_try(db: Database, passwords: Passwords, policy: PolicyReader, *, email: str, password: str) -> Attempt:
    """Before any transaction: pay for the try, then check the password, known address or not."""
    email = normal_email(email)
    if not email or len(email) > MAX_EMAIL or not 0 < len(password) <= MAX_LENGTH:
        return Attempt(email=email[:MAX_EMAIL])
    key = token_hash(email)
    taken = await db.statement(
        store.CHARGE, key, policy.number("issuer.login_free_attempts"), policy.number("issuer.lockout_max_seconds")
    )
    if taken is None:
        row = await db.statement(store.WAIT, key)
        return Attempt(email=email, wait_seconds=max(float(row["seconds"]), 1.0) if row else 1.0)
    async with db.read(Sight()) as tx:
        account = await store.by_email(tx, email)
    password = normal(password)
    if not await passwords.verify(password, account.password_hash if account else None) or account is None:
        return Attempt(email=email)
    renewed = await passwords.hash(password) if passwords.outdated(account.password_hash) else None
    return Attempt(email=email, account=account, new_hash=renewed)


async def login_accepted(tx: Tx, attempt: Attempt) -> bool:
    """In the transaction of the login: forget the failures before it. False when the password was changed meanwhile."""
    if attempt.account is None:
        raise ValueError("only an attempt that found an account can be accepted")
    if not await store.logged_in(tx, attempt.account):
        return False
    await store.forgive(tx, token_hash(attempt.email))
    if attempt.new_hash is not None:
        await store.rehash(tx, attempt.account, attempt.new_hash)
    return True


async def account_get(tx: Tx, account_id: UUID) -> Account | None:
    return await store.by_id(tx, account_id)


async def account_list(tx: Tx, *, after: UUID, email: str | None, limit: int) -> list[Account]:
    return await store.page(tx, after, None if email is None else normal_email(email), limit)


async def temporary_password(passwords: Passwords) -> tuple[str, str]:
    """A password for one login, and its hash."""
    password = temporary()
    return password, await passwords.hash(password)


async def account_create(tx: Tx, *, email: str, name: str, password_hash: str) -> Account:
    """By an admin, who vouches for the address; the first login has to choose a password."""
    return await store.add(
        tx, email=normal_email(email), email_verified=True, name=name, password_hash=password_hash, must_change=True
    )


async def account_ensure(tx: Tx, *, email: str, password: str, name: str) -> Account:
    """Make the account unless the address has one; then it, its password included, stays as it is."""
    known = await store.by_email(tx, normal_email(email))
    if known is not None:
        return known
    return await store.add(
        tx,
        email=normal_email(email),
        email_verified=True,
        name=name,
        password_hash=hash_now(normal(password)),
        must_change=False,
    )


async def password_reset(tx: Tx, account_id: UUID, *, password_hash: str) -> Account:
    account = await store.set_password(tx, account_id, password_hash, must_change=True)
    if account is None:
        raise Missing(Code.ISSUER_ACCOUNT_MISSING, "There is no such login.")
    await store.forgive(tx, token_hash(account.email))
    return account


async def password_set(tx: Tx, account: Account, *, password_hash: str) -> Account | None:
    """None when somebody else changed it in the meantime."""
    changed = await store.set_password(
        tx, account.id, password_hash, must_change=False, from_version=account.password_version
    )
    if changed is not None:
        await store.forgive(tx, token_hash(account.email))
    return changed


def require_acceptable(password: str, account: Account, *, field: str) -> None:
    said = problem(password, account.email, account.name)
    if said is not None:
        raise Refused(Code.PASSWORD_REFUSED, said, details=[Detail(field, said)])


async def attempts_prune(tx: Tx) -> int:
    return await store.prune_attempts(tx)
