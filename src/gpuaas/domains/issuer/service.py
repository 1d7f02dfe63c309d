"""The issuer's door for others: making logins, changing passwords, rotating keys, ending what a person has open.

Always holds: a changed or reset password, and a disabled user, end every session and token of the login, and what was
promised and not yet taken (but, for a change, the session and tokens of the one that asks)."""

from typing import Any
from uuid import UUID

import msgspec

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.error_codes import CATALOGUE, Code
from gpuaas.contracts.tokens import BUILT_IN
from gpuaas.domains.identity.sessions import service as credentials
from gpuaas.domains.issuer.accounts import service as accounts
from gpuaas.domains.issuer.accounts.models import Account
from gpuaas.domains.issuer.accounts.password_rules import normal
from gpuaas.domains.issuer.devices import service as devices
from gpuaas.domains.issuer.grants import service as grants
from gpuaas.domains.issuer.grants.models import Family
from gpuaas.domains.issuer.models import Desk
from gpuaas.domains.issuer.sessions import service as sessions
from gpuaas.infra.passwords import Passwords
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Sight, Tx
from gpuaas.infra.signing import PublicKey, Purpose, SigningKeys
from gpuaas.kit.errors import Fault, Limited

SYSTEM = "system:issuer"


class BuiltInKeys:
    """The built-in issuer's public keys, for the verification of its tokens: read from the table, not over HTTP."""

    def __init__(self, db: Database, keys: SigningKeys) -> None:
        self._db = db
        self._keys = keys

    async def fetch(self) -> dict[str, Any]:
        async with self._db.read(Sight()) as tx:
            found = await self._keys.public_set(tx, Purpose.ISSUER)
        if found["keys"]:
            return found
        async with self._db.transaction(Sight(), SYSTEM) as tx:
            await self._keys.signer(tx, Purpose.ISSUER)
            return await self._keys.public_set(tx, Purpose.ISSUER)


async def account_ensure(tx: Tx, *, email: str, password: str, name: str) -> str:
    """The subject of the login with this address; made with this password if there is none yet."""
    return str((await accounts.account_ensure(tx, email=email, password=password, name=name)).id)


async def password_reset(tx: Tx, account_id: UUID, *, password_hash: str) -> Account:
    account = await accounts.password_reset(tx, account_id, password_hash=password_hash)
    await all_end(tx, account_id, "password reset")
    return account


class PasswordChanging(msgspec.Struct, frozen=True, kw_only=True):
    """A change that may be made: whose, by which login, to what."""

    account: Account
    family: Family
    password_hash: str


async def password_change_prepare(
    db: Database, desk: Desk, passwords: Passwords, actor: Actor, *, current: str, wanted: str
) -> PasswordChanging:
    """Before the transaction: is it his password, and is the new one acceptable?"""
    async with db.read(Sight()) as tx:
        family = await grants.family_of_token(tx, actor.credential_id) if actor.issuer == BUILT_IN else None
        account = await accounts.account_get(tx, family.account_id) if family is not None else None
    if family is None or account is None:
        raise _fault(Code.PASSWORD_ELSEWHERE)
    accounts.require_acceptable(wanted, account, field="new_password")
    attempt = await accounts.login_try(db, passwords, desk.policy, email=account.email, password=current)
    if attempt.wait_seconds > 0:
        raise Limited(
            Code.RATE_LIMITED, "Too many wrong passwords. Wait before the next.", retry_after=attempt.wait_seconds
        )
    if attempt.account is None:
        raise _fault(Code.PASSWORD_WRONG)
    return PasswordChanging(account=attempt.account, family=family, password_hash=await passwords.hash(normal(wanted)))


async def password_change(tx: Tx, change: PasswordChanging) -> None:
    if await accounts.password_set(tx, change.account, password_hash=change.password_hash) is None:
        raise _fault(Code.PASSWORD_WRONG)
    await all_end(tx, change.account.id, "password changed", but=change.family)


async def all_end(tx: Tx, account_id: UUID, reason: str, *, but: Family | None = None) -> None:
    """Every browser and every client of a login is logged out; its live access tokens are denied."""
    await sessions.sessions_end(tx, account_id, except_id=but.session_id if but else None)
    await devices.approvals_end(tx, account_id)
    await grants.families_end(tx, account_id, reason, except_id=but.id if but else None)


async def keys_rotate(tx: Tx, keys: SigningKeys, *, distrust_old: bool) -> list[PublicKey]:
    await keys.rotate(tx, Purpose.ISSUER, distrust_old=distrust_old)
    if distrust_old:
        await credentials.keys_changed(tx)
    return await keys.public_keys(tx, Purpose.ISSUER)


async def keys_list(tx: Tx, keys: SigningKeys) -> list[PublicKey]:
    return await keys.public_keys(tx, Purpose.ISSUER)


async def expired_prune(tx: Tx, *, refresh_token_days: int) -> int:
    """What nobody can use any more: codes, device codes, sessions, families, spent tokens, forgotten failures."""
    pruned = await devices.devices_prune(tx) + await grants.grants_prune(tx, refresh_token_days=refresh_token_days)
    return pruned + await sessions.sessions_prune(tx) + await accounts.attempts_prune(tx)


def _fault(code: Code) -> Fault:
    kind, sentence = CATALOGUE[code]
    return kind(code, sentence)
