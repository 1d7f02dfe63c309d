"""An authority whose people, organisations and projects are written down by the test: for domains above identity that
only need somebody to ask. What they do goes through the real pipeline to the real database."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import httpx

from gpuaas.contracts.actor import Actor, ActorKind
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.permissions import PlatformRole, Role
from gpuaas.infra.http.app import App
from gpuaas.infra.http.operation import REGISTRY
from gpuaas.infra.http.pipeline import Edge
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.errors import Unauthenticated
from gpuaas.kit.ids import OrgId, ProjectId, new_id
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader


class WrittenPeople:
    """Implements `ports.authority.Authority`. `add` says who somebody is; his credential is his name."""

    def __init__(self) -> None:
        self.people: dict[str, Actor] = {}
        self.orgs: set[OrgId] = set()
        self.org_by_project: dict[ProjectId, OrgId] = {}

    def add(
        self,
        name: str,
        *,
        platform: Iterable[PlatformRole] = (),
        orgs: dict[OrgId, Role] | None = None,
        projects: dict[ProjectId, Role] | None = None,
    ) -> Actor:
        self.people[name] = Actor(
            kind=ActorKind.USER,
            id=new_id(),
            name=name,
            email=f"{name}@example.com",
            platform_roles=frozenset(platform),
            org_roles=orgs or {},
            project_roles=projects or {},
        )
        return self.people[name]

    def recall(self, credential: str) -> Actor | None:
        return None

    async def actor(self, credential: str, *, fresh: bool = False) -> Actor:
        if credential not in self.people:
            raise Unauthenticated(Code.CREDENTIAL_INVALID, "unknown")
        return self.people[credential]

    async def org_of(self, project_id: ProjectId) -> OrgId | None:
        return self.org_by_project.get(project_id)

    async def org_exists(self, org_id: OrgId) -> bool:
        return org_id in self.orgs

    async def org(self, superuser: "asyncpg.Connection[asyncpg.Record]", name: str) -> OrgId:
        org_id = OrgId(new_id())
        await superuser.execute("INSERT INTO orgs (id, name, title) VALUES ($1, $2, $2)", org_id, name)
        self.orgs.add(org_id)
        return org_id

    async def project(self, superuser: "asyncpg.Connection[asyncpg.Record]", org_id: OrgId, name: str) -> ProjectId:
        project_id = ProjectId(new_id())
        await superuser.execute(
            "INSERT INTO projects (id, org_id, name, title) VALUES ($1, $2, $3, $3)", project_id, org_id, name
        )
        self.org_by_project[project_id] = org_id
        return project_id


class Caller:
    """Asks the API as one of the people."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def __call__(self, who: str, method: str, path: str, body: Any = None, **query: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {who}"}
        if method != "GET":
            headers["Idempotency-Key"] = new_id().hex
        return await self._client.request(method, path, headers=headers, json=body, params=query)


@asynccontextmanager
async def api_for(
    db: Database, people: WrittenPeople, policy: PolicyReader, parts: Parts | None = None
) -> AsyncIterator[Caller]:
    """All operations declared so far, behind the real pipeline."""
    edge = Edge(db=db, authority=people, policy=policy, cursor_key=b"k" * 32, parts=parts or Parts())
    transport = httpx.ASGITransport(app=App(REGISTRY, edge, pages={}), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test/api/v1", timeout=30) as client:
        yield Caller(client)
