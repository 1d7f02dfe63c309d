"""The API as it runs in production: assembled by its own assembly, on a real server and socket, with the module's
database; and the same as a process of its own, for tests that kill it."""

import asyncio
import atexit
import base64
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import asyncpg
import httpx
import msgspec
import pytest

from gpuaas.contracts.policy_keys import POLICY_KEYS
from gpuaas.contracts.tokens import ACCESS_TOKEN_TYPE
from gpuaas.infra.embedded.ports import free_port
from gpuaas.infra.http.server import listen, make_server, serve
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Sight
from gpuaas.infra.signing import Purpose, Signer, SigningKeys
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from gpuaas.kit.secrets import MasterKey
from gpuaas.processes.api.agents import serve_agents
from gpuaas.processes.api.assembly import assemble
from gpuaas.processes.settings import PREFIX, Settings
from tests.support.servers import DatabaseUrls

READY_SECONDS = 30.0
OBJECTS = Path(tempfile.mkdtemp(prefix="gpuaas-objects-"))
"""Where every API of this run keeps files."""
atexit.register(shutil.rmtree, OBJECTS, ignore_errors=True)
HOST = "127.0.0.1"


class HasSubject(Protocol):
    """A person, as the issuer knows him."""

    @property
    def subject(self) -> str: ...
    @property
    def email(self) -> str: ...
    @property
    def name(self) -> str: ...


class Mint:
    """Access tokens as the built-in issuer signs them, with its own key."""

    def __init__(self, settings: Settings, signer: Signer) -> None:
        self._settings = settings
        self._signer = signer

    def __call__(self, user: HasSubject, **claims: Any) -> str:
        now = clock.epoch_s()
        said = {
            "iss": self._settings.issuer,
            "sub": user.subject,
            "aud": self._settings.oidc_audience,
            "iat": now,
            "exp": now + 3000,
            "jti": new_id().hex,
            "client_id": "gpuaas-cli",
            "email": user.email,
            "email_verified": True,
            "name": user.name,
        }
        return self._signer.token(said | claims, typ=ACCESS_TOKEN_TYPE)


@dataclass(frozen=True)
class LiveApi:
    url: str
    settings: Settings
    client: httpx.AsyncClient
    token_for: Mint

    @property
    def port(self) -> int:
        return self.settings.port


def make_settings(database_url: str, nats_url: str, **changed: Any) -> Settings:
    port = free_port()
    said: dict[str, Any] = {
        "database_url": database_url,
        "nats_url": nats_url,
        "port": port,
        "public_url": f"http://{HOST}:{port}",
        "master_key": base64.b64encode(os.urandom(32)).decode(),
        "log_level": "error",
        "environment": "demo",
        "objects_url": OBJECTS.as_uri(),
        "write_pool_size": 12,
        "read_pool_size": 6,
    }
    return Settings(**(said | changed))


async def open_rates(superuser_url: str) -> None:
    """Rates and counts are as wide as they go: what is not about them does not meet them."""
    connection = await asyncpg.connect(superuser_url)
    rates = [
        (key.name, str(key.maximum))
        for key in POLICY_KEYS.values()
        if key.name.startswith("rate_limit.") or key.name.endswith("_per_org_max")
    ]
    await connection.executemany(
        "INSERT INTO policy_overrides (key, value, guardrail, set_from, set_by_name, reason) "
        "VALUES ($1, $2::text::jsonb, false, 'global', 'tests', 'rates are not what is tested')",
        rates,
    )
    await connection.close()


async def mint_for(settings: Settings, database_url: str) -> Mint:
    """With the key that signs in this database; makes it if there is none."""
    db = Database(database_url, read_pool_size=1, write_pool_size=1)
    await db.open()
    keys = SigningKeys(MasterKey.from_text(settings.master_key))
    async with db.transaction(Sight(), "system:tests") as tx:
        signer = await keys.signer(tx, Purpose.ISSUER)
    await db.close()
    return Mint(settings, signer)


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """The application on its port, in this loop, ready."""
    stop = asyncio.Event()
    async with assemble(settings) as app:
        listener = listen(settings.host, settings.port)
        work = [serve(make_server(app, host=settings.host, port=settings.port), listener, stop)]
        if settings.agent_port:
            work.append(serve_agents(app.edge, listen(settings.agent_host, settings.agent_port), stop))
        running = asyncio.gather(*work)
        limits = httpx.Limits(max_connections=200, max_keepalive_connections=50)
        async with httpx.AsyncClient(base_url=settings.public_url, timeout=30, limits=limits) as client:
            await wait_ready(client)
            yield client
        stop.set()
        await running


async def wait_ready(client: httpx.AsyncClient, seconds: float = READY_SECONDS) -> float:
    """How long it took until the API said that it is ready."""
    started = time.monotonic()
    said = ""
    while time.monotonic() - started < seconds:
        try:
            answer = await client.get("/readyz", timeout=3)
            if answer.status_code == 200:
                return time.monotonic() - started
            said = answer.text
        except httpx.HTTPError as error:
            said = repr(error)
        await asyncio.sleep(0.05)
    raise AssertionError(f"not ready within {seconds} s: {said}")


@pytest.fixture(scope="module")
async def live_api(database: DatabaseUrls, nats_url: str) -> AsyncIterator[LiveApi]:
    settings = make_settings(database.app, nats_url)
    await open_rates(database.superuser)
    mint = await mint_for(settings, database.app)
    async with serving(settings) as client:
        yield LiveApi(settings.public_url, settings, client, mint)


class ApiProcess:
    """`gpuaas api` as a process: started, killed, started again on the same port."""

    def __init__(self, settings: Settings, log: Path) -> None:
        self.settings = settings
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self.settings.public_url

    def start(self) -> None:
        said = {
            PREFIX + name.upper(): str(value)
            for name, value in msgspec.structs.asdict(self.settings).items()
            if value != ""
        }
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gpuaas", "api"], stdout=out, stderr=out, env=os.environ | said
            )

    def kill(self) -> None:
        """As the kernel would: no chance to say anything."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(10)
            self._process = None

    def terminate(self) -> int:
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(15)
        self._process = None
        return code

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    async def ready(self, seconds: float = READY_SECONDS) -> float:
        async with httpx.AsyncClient(base_url=self.url) as client:
            try:
                return await wait_ready(client, seconds)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{self.log[-3000:]}") from error


@pytest.fixture(scope="module")
async def api_process(
    database: DatabaseUrls, nats_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ApiProcess]:
    """Running and ready. Its settings are its own; tokens come from `mint_for(api.settings, …)`."""
    await open_rates(database.superuser)
    process = ApiProcess(make_settings(database.app, nats_url), tmp_path_factory.mktemp("api") / "api.log")
    process.start()
    try:
        await process.ready()
        yield process
    finally:
        process.kill()


@pytest.fixture(scope="module")
def api_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Makes processes with settings of one's own; they end with the module."""
    made: list[ApiProcess] = []

    def make(settings: Settings) -> ApiProcess:
        made.append(ApiProcess(settings, tmp_path_factory.mktemp("api") / "api.log"))
        return made[-1]

    yield make
    for process in made:
        process.kill()
