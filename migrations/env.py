"""How Alembic reaches the database. Each migration is one transaction under one advisory lock."""

import asyncio

from alembic import context
from sqlalchemy import Connection, pool, text
from sqlalchemy.ext.asyncio import create_async_engine

from gpuaas.infra.postgres.migrate import LOCK


def _run(connection: Connection) -> None:
    context.configure(connection=connection, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()


async def _online() -> None:
    engine = create_async_engine(context.config.attributes["url"], poolclass=pool.NullPool)
    async with engine.connect() as guard, engine.connect() as connection:
        await guard.execute(text("SELECT pg_advisory_lock(:key)"), {"key": LOCK})
        await connection.run_sync(_run)
    await engine.dispose()


asyncio.run(_online())
