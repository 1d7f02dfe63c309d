"""Migrations: numbered plain SQL files, up and down, run by Alembic as the owner's role.

Always holds: each migration commits whole or not at all; two programs migrating at once take turns; a database that is
already at head is told so without loading Alembic."""

import asyncio
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

import gpuaas

LOCK = 7_165_381_004  # any number, the same in every version
_ROLE = re.compile(r"^[a-z_][a-z0-9_]{0,62}$")


def folder() -> Path:
    """Where the migrations are: at the root of a checkout, inside of an installed package."""
    package = Path(gpuaas.__file__).parent
    inside = package / "_migrations"
    return inside if inside.is_dir() else package.parents[1] / "migrations"


def numbers() -> list[int]:
    """Every migration there is, oldest first."""
    return sorted(int(path.name.partition("_")[0]) for path in (folder() / "versions").glob("[0-9]*.py"))


def head() -> str:
    return f"{numbers()[-1]:04d}"


async def current(url: str) -> str:
    """The migration a database is at; '' when it has none."""
    connection = await asyncpg.connect(url, timeout=10)
    try:
        if await connection.fetchval("SELECT to_regclass('public.alembic_version')") is None:
            return ""
        found = await connection.fetchval("SELECT version_num FROM alembic_version")
        return str(found or "")
    finally:
        await connection.close()


def upgrade(owner_url: str, *, app_role: str, to: str = "head") -> bool:
    """Bring the database to a migration; says whether anything was to do."""
    if to == "head" and asyncio.run(current(owner_url)) == head():
        return False
    from alembic import command

    command.upgrade(_config(owner_url, app_role), to)
    return True


def downgrade(owner_url: str, *, app_role: str, to: str) -> None:
    from alembic import command

    command.downgrade(_config(owner_url, app_role), to)


def _config(owner_url: str, app_role: str) -> Any:
    from alembic.config import Config

    if not _ROLE.match(app_role):
        raise ValueError(f"not a role's name: {app_role!r}")
    config = Config()
    config.set_main_option("script_location", str(folder()).replace("%", "%%"))
    config.attributes["url"] = sqlalchemy_url(owner_url)
    config.attributes["app_role"] = app_role
    return config


def sqlalchemy_url(url: str) -> str:
    parts = urlsplit(url)
    # SQLAlchemy hands the query to the driver's connect, where libpq's `sslmode` is called `ssl`.
    return urlunsplit(("postgresql+asyncpg", parts.netloc, parts.path, parts.query.replace("sslmode=", "ssl="), ""))


def statements(name: str, app_role: str) -> str:
    """A migration's SQL, with the application's role in place."""
    return re.sub(r"(?<= ):app\b", f'"{app_role}"', (folder() / "sql" / name).read_text())


def apply(name: str) -> None:
    """Run a migration's SQL file inside Alembic's transaction. Called by the files in `migrations/versions`."""
    from alembic import context, op

    sql = statements(name, context.config.attributes["app_role"])
    op.execute("SELECT 1")  # the driver begins its transaction with the first statement
    driver: Any = op.get_bind().connection.dbapi_connection
    # Many statements in one message need the driver's simple protocol.
    driver.run_async(lambda connection: connection.execute(sql))
