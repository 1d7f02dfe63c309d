"""PostgreSQL restarted and killed under the API: what was acknowledged is there, once; what was not is repeated by its
key; meanwhile the API says that it cannot, and afterwards it can again by itself."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import httpx
import pytest

from gpuaas.infra.embedded.home import make_temporary_directory
from gpuaas.infra.embedded.postgres import EmbeddedPostgres
from gpuaas.infra.postgres import migrate
from gpuaas.kit.ids import new_id
from tests.every.asking import assert_shape
from tests.every.world import Setting, make_setting
from tests.support.live import ApiProcess, Mint, api_processes, make_settings, mint_for, open_rates

__all__ = ["api_processes"]

pytestmark = pytest.mark.xdist_group("api_postgres")
CLIENTS = 8
READY_WITHIN_SECONDS = 10.0


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[EmbeddedPostgres]:
    """Durable: what it acknowledged must be there after a kill."""
    home = make_temporary_directory()
    server = EmbeddedPostgres(home, durable=True)
    server.start()
    yield server
    server.destroy()
    shutil.rmtree(home, ignore_errors=True)


@dataclass(frozen=True)
class Stage:
    postgres: EmbeddedPostgres
    api: ApiProcess
    client: httpx.AsyncClient
    setting: Setting
    mint: Mint

    def headers(self, who: str, **more: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.mint(self.setting.people[who])}"} | more

    async def sql(self) -> Any:
        return await asyncpg.connect(self.postgres.urls.superuser)


@pytest.fixture(scope="module")
async def stage(own_postgres: EmbeddedPostgres, nats_url: str, api_processes: Any) -> AsyncIterator[Stage]:
    urls = own_postgres.urls
    await asyncio.to_thread(migrate.upgrade, urls.owner, app_role="gpuaas_app")
    await open_rates(urls.superuser)
    settings = make_settings(urls.app, nats_url)
    api: ApiProcess = api_processes(settings)
    api.start()
    await api.ready()
    connection = await asyncpg.connect(urls.superuser)
    setting = await make_setting(connection, settings.realm)
    await connection.close()
    limits = httpx.Limits(max_connections=50)
    async with httpx.AsyncClient(base_url=settings.public_url, timeout=30, limits=limits) as client:
        yield Stage(own_postgres, api, client, setting, await mint_for(settings, urls.app))


@dataclass
class Load:
    """Clients that want projects and do not give up: the same key until there is an answer."""

    stage: Stage
    over: asyncio.Event = field(default_factory=asyncio.Event)
    acknowledged: list[str] = field(default_factory=list)
    unanswered: int = 0
    refused: int = 0
    replayed: int = 0
    odd: list[str] = field(default_factory=list)

    async def run(self) -> None:
        await asyncio.gather(*(self._client() for _ in range(CLIENTS)))

    async def _client(self) -> None:
        headers = self.stage.headers("owner")
        while not self.over.is_set():
            await self._until_done(f"p-{new_id().hex}", headers)

    async def _until_done(self, name: str, headers: dict[str, str]) -> None:
        said = headers | {"Idempotency-Key": name, "X-Correlation-Id": name}
        give_up_at = time.monotonic() + 60
        while time.monotonic() < give_up_at:
            try:
                answer = await self.stage.client.post(
                    f"/api/v1/orgs/{self.stage.setting.org_id}/projects", headers=said, json={"name": name[:40]}
                )
            except httpx.TransportError:
                self.unanswered += 1
                await asyncio.sleep(0.05)
                continue
            if answer.status_code == 201:
                self.acknowledged.append(name)
                self.replayed += "idempotency-replayed" in answer.headers
                return
            if answer.status_code != 503:
                self.odd.append(answer.text)
                return
            assert_shape(answer)
            self.refused += 1
            await asyncio.sleep(0.1)
        self.odd.append(f"{name} was never done")


async def assert_each_once(stage: Stage, names: list[str]) -> None:
    sql = await stage.sql()
    projects = dict(await sql.fetch("SELECT name, count(*) FROM projects WHERE name LIKE 'p-%' GROUP BY name"))
    audits = dict(
        await sql.fetch(
            "SELECT correlation_id, count(*) FROM audit_log WHERE operation = 'project_create' GROUP BY correlation_id"
        )
    )
    events = dict(
        await sql.fetch(
            "SELECT correlation_id, count(*) FROM outbox WHERE name = 'project.created' GROUP BY correlation_id"
        )
    )
    await sql.close()
    assert len(set(names)) == len(names)
    assert projects == {name[:40]: 1 for name in names}, "lost or doubled"
    assert audits == dict.fromkeys(names, 1)
    assert events == dict.fromkeys(names, 1)


async def ready_again(stage: Stage, started: float) -> float:
    await stage.api.ready(READY_WITHIN_SECONDS)
    return time.monotonic() - started


@pytest.mark.slow
async def test_postgres_restarted_and_killed_under_load_loses_and_doubles_nothing(stage: Stage):
    """Five times; ready again within ten seconds of its return, every time."""
    load = Load(stage)
    running = asyncio.create_task(load.run())
    waits = []
    for how in ("stop", "kill", "stop", "kill", "kill"):
        await asyncio.sleep(1.0)
        await asyncio.to_thread(getattr(stage.postgres, how))
        await asyncio.sleep(1.0)
        stage.postgres.start()
        waits.append(await ready_again(stage, time.monotonic()))
    await asyncio.sleep(1.0)
    load.over.set()
    await running
    assert load.odd == []
    assert load.refused + load.unanswered > 0, "nobody noticed"
    assert len(load.acknowledged) > 100
    assert max(waits) <= READY_WITHIN_SECONDS
    await assert_each_once(stage, load.acknowledged)


async def test_connections_cut_at_any_moment_lose_and_double_nothing(stage: Stage):
    """PostgreSQL stays, every connection of the API is ended again and again, whatever it is doing."""
    before = await _done_before(stage)
    load = Load(stage)
    running = asyncio.create_task(load.run())
    sql = await stage.sql()
    for _ in range(60):
        await asyncio.sleep(0.05)
        await sql.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gpuaas_app'")
    await sql.close()
    load.over.set()
    await running
    assert load.odd == []
    await assert_each_once(stage, [*before, *load.acknowledged])


async def _done_before(stage: Stage) -> list[str]:
    sql = await stage.sql()
    rows = await sql.fetch("SELECT correlation_id FROM audit_log WHERE operation = 'project_create'")
    await sql.close()
    return [row["correlation_id"] for row in rows]


async def test_while_the_database_is_away_the_api_says_so_and_lets_nobody_in(stage: Stage):
    """Strict lanes and everything with a credential fail closed; what needs no database is served."""
    headers = stage.headers("platform_admin")
    assert (await stage.client.get("/api/v1/auth/session", headers=headers)).status_code == 200
    await asyncio.to_thread(stage.postgres.stop)
    try:
        # Who was let in a moment ago is known for a second: a read of himself needs no database.
        known = await stage.client.get("/api/v1/auth/session", headers=headers)
        assert known.status_code in {200, 503}
        await asyncio.sleep(1.2)
        asked = [
            ("GET", "/api/v1/auth/session"),  # default lane
            ("GET", "/api/v1/orgs"),  # default lane
            ("GET", "/api/v1/platform/users"),  # admin lane
            ("GET", "/api/v1/auth/config"),  # auth lane, public
            ("POST", "/api/v1/orgs"),
        ]
        for method, path in asked:
            started = time.monotonic()
            body = {"name": f"o-{new_id().hex[:20]}"} if method == "POST" else None
            answer = await stage.client.request(
                method, path, headers=headers | {"Idempotency-Key": new_id().hex}, json=body
            )
            assert answer.status_code == 503, f"{path}: {answer.text}"
            assert_shape(answer)
            assert time.monotonic() - started < 6
        assert (await stage.client.get("/healthz")).status_code == 200
        assert (await stage.client.get("/readyz")).status_code == 503
        assert (await stage.client.get("/api/openapi.json")).status_code == 200
        assert (await stage.client.get("/oidc/.well-known/openid-configuration")).status_code == 200
    finally:
        stage.postgres.start()
    assert await ready_again(stage, time.monotonic()) <= READY_WITHIN_SECONDS
    assert (await stage.client.get("/api/v1/auth/session", headers=headers)).status_code == 200


@pytest.mark.slow
async def test_the_api_killed_under_load_again_and_again_loses_and_doubles_nothing(stage: Stage):
    before = await _done_before(stage)
    load = Load(stage)
    running = asyncio.create_task(load.run())
    for _ in range(5):
        await asyncio.sleep(0.7)
        stage.api.kill()
        stage.api.start()
        await stage.api.ready()
    load.over.set()
    await running
    assert load.odd == []
    assert load.unanswered > 0
    await assert_each_once(stage, [*before, *load.acknowledged])


async def test_the_api_starts_before_its_database_and_stops_within_ten_seconds(stage: Stage):
    await asyncio.to_thread(stage.postgres.stop)
    try:
        started = time.monotonic()
        assert stage.api.terminate() == 0
        assert time.monotonic() - started < 10
        stage.api.start()
        answer, give_up_at = None, time.monotonic() + 20
        while answer is None and time.monotonic() < give_up_at:
            answer = await _probe(stage)
        assert answer is not None
        assert answer.status_code == 503
    finally:
        stage.postgres.start()
    assert await ready_again(stage, time.monotonic()) <= READY_WITHIN_SECONDS


async def _probe(stage: Stage) -> httpx.Response | None:
    try:
        return await stage.client.get("/readyz")
    except httpx.TransportError:
        await asyncio.sleep(0.05)
        return None
