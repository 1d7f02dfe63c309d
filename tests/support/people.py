"""People with tokens of the tests' own issuer, and the API they ask: every operation, behind the real pipeline, with
the real authority, on the real database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx

from gpuaas.contracts.permissions import PlatformRole
from gpuaas.domains import load_routes
from gpuaas.domains.identity.authority.service import CredentialAuthority
from gpuaas.domains.identity.users.service import platform_role_grant
from gpuaas.infra.http.app import App
from gpuaas.infra.http.operation import REGISTRY
from gpuaas.infra.http.pipeline import Edge
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.ids import UserId, new_id
from gpuaas.kit.parts import Parts
from gpuaas.kit.secrets import MasterKey
from tests.support.issuer_site import WrittenPolicy
from tests.support.tokens import IssuerOfTests


@dataclass(frozen=True)
class Person:
    """Somebody who has logged in once."""

    id: UUID
    token: str
    email: str
    personal_org: UUID


@dataclass
class City:
    """One installation: its people, and a way to ask its API as each of them."""

    db: Database
    issuer: IssuerOfTests
    authority: CredentialAuthority
    policy: WrittenPolicy
    parts: Parts
    client: httpx.AsyncClient
    people: list[Person] = field(default_factory=list)

    async def person(self, name: str = "ada", **claims: Any) -> Person:
        subject = f"{name}-{new_id().hex}"
        email = claims.setdefault("email", f"{subject}@example.com")
        token = self.issuer.token(subject, **claims)
        actor = await self.authority.actor(token)
        assert actor.id is not None
        return Person(actor.id, token, email, next(iter(actor.org_roles)))

    async def admin(self, role: PlatformRole = PlatformRole.ADMIN) -> Person:
        person = await self.person("root")
        async with self.db.transaction(Sight(PLATFORM), "test") as tx:
            await platform_role_grant(tx, UserId(person.id), role)
        return person

    async def ask(
        self, who: Person | str | None, method: str, path: str, body: Any = None, *, key: str = "", **query: Any
    ) -> httpx.Response:
        token = who.token if isinstance(who, Person) else who
        headers = {"authorization": f"Bearer {token}"} if token else {}
        if method != "GET":
            headers["idempotency-key"] = key or new_id().hex
        return await self.client.request(method, "/api/v1" + path, headers=headers, json=body, params=query)

    async def get(self, who: Person | str, path: str, **query: Any) -> Any:
        return found(await self.ask(who, "GET", path, **query), 200)

    async def made(self, who: Person | str, path: str, body: Any) -> Any:
        return found(await self.ask(who, "POST", path, body), 201)

    async def org(self, by: Person, /, **members: Person) -> str:
        """A new organisation; the others join it with the role they are named by."""
        org_id: str = (await self.made(by, "/orgs", {"name": f"o-{new_id().hex}"}))["id"]
        for role, person in members.items():
            await self.join(by, org_id, person, role.rstrip("0123456789"))
        return org_id

    async def join(self, owner: Person, org_id: str, person: Person, role: str) -> None:
        invited = await self.made(owner, f"/orgs/{org_id}/invitations", {"email": person.email, "role": role})
        found(await self.ask(person, "POST", "/invitations/accept", {"token": invited["token"]}), 200)


def found(response: httpx.Response, status: int) -> Any:
    assert response.status_code == status, f"{response.status_code} {response.text}"
    return response.json()


def refusal(response: httpx.Response) -> tuple[int, str]:
    """Status and code of an error, which must have the catalogue's shape."""
    error = response.json()["error"]
    assert error["correlation_id"] == response.headers["x-correlation-id"]
    return response.status_code, error["code"]


async def at_once(*asks: Any) -> list[httpx.Response]:
    return list(await asyncio.gather(*asks))


@asynccontextmanager
async def city_of(db: Database, *more: Any) -> AsyncIterator[City]:
    load_routes()
    issuer, policy, master = IssuerOfTests(), WrittenPolicy(), MasterKey(b"m" * 32)
    policy.values |= {"rate_limit.admin_per_minute": 600_000, "rate_limit.admin_burst": 100_000}
    verifier = issuer.verifier()
    authority = CredentialAuthority(db, verifier)
    parts = Parts(*more, db, policy, master, verifier, authority, REGISTRY)
    edge = Edge(db=db, authority=authority, policy=policy, cursor_key=master.cursor_key, parts=parts)
    transport = httpx.ASGITransport(app=App(REGISTRY, edge, pages={}), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test", timeout=30) as client:
        yield City(db, issuer, authority, policy, parts, client)
