"""The demo: an organisation to look at, and logins that stay the same from start to start.

Passwords are made once into DATA/demo.json, readable by its owner only. Seeding is its own short process
(`gpuaas up --seed-only`), so that `up` never loads the domains; run again it
changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex, token_urlsafe
from typing import TYPE_CHECKING

from gpuaas.infra.embedded.files import read_private, write_private
from gpuaas.processes.settings import Settings
from gpuaas.processes.up.errors import UpError

if TYPE_CHECKING:
    from gpuaas.infra.postgres.tx import Tx
    from gpuaas.kit.ids import OrgId

PLATFORM_ADMIN, TENANT_OWNER = "platform_admin", "tenant_owner"

_WANTED = ((PLATFORM_ADMIN, "admin@demo.example"), (TENANT_OWNER, "owner@demo.example"))
_ORG_NAME = "demo"
_PASSWORD_BYTES = 12
_GIFT_MICROS = 1_000_000_000
"""1,000.00: so that GPUs can be asked for at once."""


@dataclass(frozen=True)
class Login:
    """Somebody who can log in to the demo."""

    role: str
    email: str
    password: str


def demo_logins(data: Path) -> list[Login]:
    """The demo's logins with their passwords, made on first use and kept."""
    file = data / "demo.json"
    content = read_private(file)
    try:
        known = {entry["role"]: str(entry["password"]) for entry in json.loads(content)} if content else {}
    except (ValueError, KeyError, TypeError):
        raise UpError(f"{file} is damaged; remove it to get new demo logins") from None
    logins = [Login(role, email, known.get(role) or token_urlsafe(_PASSWORD_BYTES)) for role, email in _WANTED]
    if any(login.role not in known for login in logins):
        write_private(file, json.dumps([asdict(login) for login in logins], indent=1).encode() + b"\n")
    return logins


async def seed(settings: Settings, logins: Sequence[Login], ssh_key: str = "") -> None:
    """Make the demo's people with these passwords and the tenant owner's organisation and SSH key, unless they exist.

    Everything in one transaction: who was ever seeded is left as he is, whatever he deleted since.
    """
    # Loaded here: `up` itself imports this module and never seeds in its own process.
    from gpuaas.infra.postgres.database import Database
    from gpuaas.infra.postgres.tx import PLATFORM, Sight
    from gpuaas.kit.errors import Conflict

    db = Database(settings.database_url, read_pool_size=1, write_pool_size=1)
    await db.open()
    try:
        for org_name in (_ORG_NAME, f"{_ORG_NAME}-{token_hex(3)}"):  # the first may belong to somebody by now
            try:
                async with db.transaction(Sight(PLATFORM), "seed") as tx:
                    for login in logins:
                        await _seed_one(tx, settings.realm, login, org_name, ssh_key)
                return
            except Conflict:
                continue
    finally:
        await db.close()


async def _seed_one(tx: Tx, issuer: str, login: Login, org_name: str, ssh_key: str) -> None:
    from gpuaas.contracts.http.orgs import OrgCreate, ProjectCreate
    from gpuaas.contracts.http.ssh_keys import SshKeyAdd
    from gpuaas.contracts.permissions import PlatformRole
    from gpuaas.domains.identity.orgs.service import org_create
    from gpuaas.domains.identity.projects.service import project_create
    from gpuaas.domains.identity.ssh_keys.service import ssh_key_add
    from gpuaas.domains.identity.users.service import platform_role_grant, user_ensure
    from gpuaas.domains.issuer.accounts.service import account_ensure

    name = login.role.replace("_", " ").capitalize()
    account = await account_ensure(tx, email=login.email, password=login.password, name=name)
    user, first_org = await user_ensure(
        tx, issuer=issuer, subject=str(account.id), email=login.email, email_verified=True, name=name
    )
    if first_org is None:
        return
    if login.role == PLATFORM_ADMIN:
        await platform_role_grant(tx, user.id, PlatformRole.ADMIN)
    else:
        org = await org_create(tx, user.id, OrgCreate(name=org_name, title="Demo"), max_orgs=1)
        wanted = ProjectCreate(name="first-project", title="First project")
        await project_create(tx, org.id, wanted, max_projects=1)
        await tx.enter_platform()
        await _give(tx, org.id)
        if ssh_key:
            await ssh_key_add(tx, user.id, SshKeyAdd(public_key=ssh_key, name="demo"), max_keys=1)


async def _give(tx: Tx, org_id: OrgId) -> None:
    from gpuaas.contracts.http.billing import AccountKind, PostingKind
    from gpuaas.domains.billing.ledger import service as ledger
    from gpuaas.domains.billing.ledger.models import Posting, between

    legs = between(_GIFT_MICROS, AccountKind.CREDITS)
    reason = "to try it out: this is the demo"
    await ledger.post(
        tx, Posting(kind=PostingKind.CREDIT, key=f"demo:{org_id}", org_id=org_id, legs=legs, reason=reason)
    )
