"""A small world, new for each example: one organisation with somebody in every role, one of everything an operation
could be about, and a stranger next door. Written by SQL, past the product: no operation is needed to test one."""

import base64
import json
import os
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg

from gpuaas.contracts.actor import ActorKind
from gpuaas.contracts.permissions import PlatformRole, Role
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from gpuaas.kit.secrets import INVITATION_PREFIX, SERVICE_KEY_PREFIX, new_token, token_hash
from tests.support.live import Mint

Sql = asyncpg.Connection  # past all walls

ROLES = {
    "owner": Role.OWNER,
    "second_owner": Role.OWNER,
    "admin": Role.ADMIN,
    "member": Role.MEMBER,
    "viewer": Role.VIEWER,
    "billing": Role.BILLING,
    "target": Role.MEMBER,
}
PLATFORM_ROLES = {"platform_admin": PlatformRole.ADMIN, "platform_auditor": PlatformRole.AUDITOR}
ACTORS = (
    "anonymous",
    "stranger",
    "viewer",
    "billing",
    "member",
    "admin",
    "owner",
    "platform_admin",
    "platform_auditor",
    "revoked",
    "narrow_account",
    "any_account",
)
ANY = "*"
FRESH_POLICY = "identity.service_account_keys_max"
SET_POLICY = "identity.invitation_days"


@dataclass(frozen=True)
class Person:
    id: UUID
    subject: str
    email: str
    name: str


@dataclass(frozen=True)
class Account:
    id: UUID
    key_id: UUID
    key: str


@dataclass
class Setting:
    """One organisation and all there is about it."""

    sql: Any
    issuer: str
    mark: str
    org_id: UUID = field(default_factory=new_id)
    project_id: UUID = field(default_factory=new_id)
    people: dict[str, Person] = field(default_factory=dict)
    accounts: dict[str, Account] = field(default_factory=dict)
    invitation_id: UUID = field(default_factory=new_id)
    invitation_token: str = field(default_factory=lambda: new_token(INVITATION_PREFIX))
    event_id: UUID = field(default_factory=new_id)
    dead_letter_id: UUID = field(default_factory=new_id)
    audit_id: UUID = field(default_factory=new_id)
    next_door_id: UUID = field(default_factory=new_id)

    queued: list[str] | None = None

    async def put(self, table: str, **row: Any) -> None:
        """A row, as it is: dictionaries become JSON."""
        statement = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(map(_literal, row.values()))})"
        if self.queued is not None:
            self.queued.append(statement)
        else:
            await self.sql.execute(statement)

    async def add_person(self, name: str, *, platform: PlatformRole | None = None, email: str = "") -> Person:
        person = Person(
            new_id(), f"{name}-{self.mark}", email or f"{name}-{self.mark}@example.com", name.replace("_", " ")
        )
        await self.put(
            "users",
            id=person.id,
            issuer=self.issuer,
            subject=person.subject,
            email=person.email,
            email_verified=True,
            name=person.name,
            platform_roles=[platform] if platform else [],
        )
        self.people[name] = person
        return person

    async def join(self, person: Person, role: Role, *, org_id: UUID | None = None) -> None:
        await self.put("org_members", org_id=org_id or self.org_id, user_id=person.id, role=role)

    async def add_account(self, name: str, allowed: list[str], *, role: Role = Role.ADMIN) -> Account:
        account = Account(new_id(), new_id(), new_token(SERVICE_KEY_PREFIX))
        await self.put(
            "service_accounts",
            id=account.id,
            org_id=self.org_id,
            name=f"{name.replace('_', '-')}-{self.mark}",
            role=role,
            allowed_operations=allowed,
            created_by=self.people["owner"].id,
        )
        await self.put(
            "service_account_keys",
            id=account.key_id,
            org_id=self.org_id,
            service_account_id=account.id,
            key_hash=token_hash(account.key),
            hint=account.key[:14],
            expires_at=clock.now() + timedelta(days=1),
            last_used_at=clock.now(),
        )
        self.accounts[name] = account
        return account


@dataclass(frozen=True)
class Caller:
    """Whoever asks: how the tests call him, what he is, and his credential."""

    name: str
    kind: ActorKind
    credential: str | None
    person: Person | None = None
    account: Account | None = None
    org_role: Role | None = None
    platform_role: PlatformRole | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.credential is None else {"Authorization": f"Bearer {self.credential}"}

    @property
    def id(self) -> UUID | None:
        found = self.person or self.account
        return found.id if found else None


async def make_setting(sql: Any, issuer: str) -> Setting:
    """All rows in one message: there are thousands of settings."""
    s = Setting(sql, issuer, new_id().hex[-12:], queued=[])
    await s.put("orgs", id=s.org_id, name=f"org-{s.mark}", title="An organisation")
    await s.put("projects", id=s.project_id, org_id=s.org_id, name="project", title="A project")
    for name, role in ROLES.items():
        await s.join(await s.add_person(name), role)
    for name, platform_role in PLATFORM_ROLES.items():
        await s.add_person(name, platform=platform_role)
    await s.add_person("nobody")
    await s.put(
        "project_members", org_id=s.org_id, project_id=s.project_id, user_id=s.people["target"].id, role=Role.VIEWER
    )
    await s.put("orgs", id=s.next_door_id, name=f"next-door-{s.mark}", title="Next door")
    await s.join(await s.add_person("stranger"), Role.OWNER, org_id=s.next_door_id)
    await s.add_account("any_account", [ANY])
    await s.add_account("tended", ["project_list"], role=Role.MEMBER)
    await _furnish(s)
    await sql.execute(";\n".join(s.queued or []))
    s.queued = None
    return s


async def _furnish(s: Setting) -> None:
    now = clock.now()
    await s.put(
        "invitations",
        id=s.invitation_id,
        org_id=s.org_id,
        email=f"invited-{s.mark}@example.com",
        role=Role.VIEWER,
        token_hash=token_hash(s.invitation_token),
        invited_by=s.people["owner"].id,
        expires_at=now + timedelta(days=1),
    )
    for project_id in (None, s.project_id):
        await s.put(
            "policy_overrides",
            key=SET_POLICY,
            org_id=s.org_id,
            project_id=project_id,
            value="5",
            guardrail=False,
            set_from="project" if project_id else "org",
            set_by=s.people["owner"].id,
            set_by_name="owner",
            reason="as an example",
        )
    await _furnish_books(s)


async def _furnish_books(s: Setting) -> None:
    """What has happened: an event, a dead letter of it, an audit row."""
    await s.put(
        "outbox",
        id=s.event_id,
        stream="PLATFORM",
        name="org.updated",
        version=1,
        org_id=s.org_id,
        subject_id=s.org_id,
        actor="system:tests",
        correlation_id=f"tests-{s.mark}",
        traceparent="",
        payload={"org_id": str(s.org_id)},
        published_at=clock.now(),
    )
    await s.put(
        "dead_letters",
        id=s.dead_letter_id,
        consumer="tests.nobody",
        event_id=s.event_id,
        event_name="org.updated",
        org_id=s.org_id,
        correlation_id=f"tests-{s.mark}",
        reason="as an example",
        attempts=8,
        state="open",
    )
    await s.put(
        "audit_log",
        id=s.audit_id,
        action="org.update",
        operation="org_update",
        actor_kind="user",
        actor_id=s.people["owner"].id,
        actor_name="owner",
        org_id=s.org_id,
        correlation_id=f"tests-{s.mark}",
        client_ip="127.0.0.1",
        details={"status": 200},
    )
    await s.put("audit_unsealed", audit_id=s.audit_id)


async def make_caller(s: Setting, name: str, mint: Mint, operation_id: str) -> Caller:
    """The actor of this name, with a credential that works as the name says."""
    if name == "anonymous":
        return Caller(name, ActorKind.ANONYMOUS, None)
    if name == "any_account":
        account = s.accounts[name]
        return Caller(name, ActorKind.SERVICE_ACCOUNT, account.key, account=account, org_role=Role.ADMIN)
    if name == "narrow_account":
        elsewhere = "org_get" if operation_id != "org_get" else "project_get"
        account = await s.add_account(name, [elsewhere])
        return Caller(name, ActorKind.SERVICE_ACCOUNT, account.key, account=account, org_role=Role.ADMIN)
    if name == "revoked":
        person, jti = s.people["owner"], new_id().hex
        await s.put(
            "revoked_credentials", credential_id=jti, reason="as an example", expires_at=clock.now() + timedelta(days=1)
        )
        return Caller(name, ActorKind.USER, mint(person, jti=jti), person=person, org_role=Role.OWNER)
    person = s.people[name]
    return Caller(
        name,
        ActorKind.USER,
        mint(person),
        person=person,
        org_role=ROLES.get(name),
        platform_role=PLATFORM_ROLES.get(name),
    )


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    if isinstance(value, list):
        kind = "int" if value and isinstance(value[0], int) else "text"
        return f"ARRAY[{', '.join(map(_literal, value))}]::{kind}[]"
    text = json.dumps(value) if isinstance(value, dict) else str(value)
    return "'" + text.replace("'", "''") + "'"


def ssh_public_key() -> str:
    """An Ed25519 key nobody has the other half of."""
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (b"ssh-ed25519", os.urandom(32)))
    return f"ssh-ed25519 {base64.b64encode(blob).decode()}"
