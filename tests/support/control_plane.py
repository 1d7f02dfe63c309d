"""A whole control plane as processes, api with its agents' listener and worker, and an operator with a terminal."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from gpuaas.infra.embedded.ports import free_port
from gpuaas.kit.ids import new_id
from tests.support.live import ApiProcess, make_settings, mint_for, open_rates
from tests.support.money import given_by_sql
from tests.support.programs import ProgramProcess
from tests.support.servers import DatabaseUrls
from tests.support.terminal import Terminal

H200 = ("--vendor", "NVIDIA", "--model", "H200", "--memory", "140GiB", "--gpus", "8", "--region", "eu-1")


@dataclass(frozen=True)
class Subject:
    """A person, as the issuer knows him."""

    subject: str
    email: str
    name: str


@dataclass
class ControlPlane:
    api: ApiProcess
    worker: ProgramProcess
    operator: Terminal
    database: DatabaseUrls

    async def sku(self) -> str:
        name = f"h200-{new_id().hex[-12:]}"
        await self.operator.good("skus", "create", name, *H200, "--counts", "1,8", "--price", "3.50")
        return name

    async def invited(self, sku: str) -> tuple[str, str]:
        """A node's name, and the line that was printed for its machine."""
        name = f"gpu-{new_id().hex[-12:]}"
        told = await self.operator.good("nodes", "create", name, "--sku", sku)
        return name, next(line for line in told.splitlines() if line.startswith("gpuaas agent enrol "))

    async def node(self, name: str) -> Any:
        return (await self.operator.run("nodes", "show", name, "-o", "json")).json

    async def fund(self, org_id: str) -> None:
        connection = await asyncpg.connect(self.database.superuser)
        try:
            await given_by_sql(connection, org_id)
        finally:
            await connection.close()

    async def asked(self, sql: str, *arguments: Any) -> list[Any]:
        connection = await asyncpg.connect(self.database.superuser)
        try:
            return list(await connection.fetch(sql, *arguments))
        finally:
            await connection.close()


@asynccontextmanager
async def control_plane(
    database: DatabaseUrls,
    nats_url: str,
    folder: Path,
    *,
    key: bool = True,
    reached_at: str = "127.0.0.1",
    **settings: Any,
) -> AsyncIterator[ControlPlane]:
    """`key`: whether the worker has one to sign tasks with. `reached_at`: the address others know it by."""
    port = free_port()
    chosen = make_settings(
        database.app,
        nats_url,
        **({"port": port, "public_url": f"http://{reached_at}:{port}", "agent_port": free_port()} | settings),
    )
    await open_rates(database.superuser)
    api = ApiProcess(chosen, folder / "api.log")
    worker = ProgramProcess("worker", database.app, nats_url, folder / "worker.log")
    worker.settings |= {"GPUAAS_OBJECTS_URL": chosen.objects_url, "GPUAAS_MASTER_KEY": chosen.master_key}
    if key:
        worker.settings["GPUAAS_TASK_SIGNING_KEY"] = base64.b64encode(os.urandom(32)).decode()
    api.start()
    worker.start()
    try:
        await asyncio.gather(api.ready(), worker.wait_ready(30))
        yield ControlPlane(api, worker, await _operator(api, database, folder), database)
    finally:
        api.kill()
        worker.kill()


async def _operator(api: ApiProcess, database: DatabaseUrls, folder: Path) -> Terminal:
    subject = Subject(f"operator-{new_id().hex}", f"{new_id().hex}@example.com", "Operator")
    connection = await asyncpg.connect(database.superuser)
    await connection.execute(
        "INSERT INTO users (id, issuer, subject, email, name, email_verified, platform_roles) "
        "VALUES ($1, $2, $3, $4, $5, true, '{platform-admin}')",
        new_id(),
        api.settings.realm,
        subject.subject,
        subject.email,
        subject.name,
    )
    await connection.close()
    token = (await mint_for(api.settings, database.app))(subject)
    return Terminal(folder / "operator", api.url, {"GPUAAS_TOKEN": token, "GPUAAS_PLAIN_HTTP": "1", "COLUMNS": "250"})
