"""The verbs of policy: read, set, unset, explain, rehearse; and keeping this process's copy fresh."""

import asyncio

from gpuaas.domains.policy import store
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.postgres.database import AGAIN, AWAY, Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit import log
from gpuaas.kit.errors import Unavailable

POLL_SECONDS = 0.5
AWAY_SECONDS = 1.0


async def policy_refresh(db: Database, policy: MemoryPolicy) -> bool:
    """Load what is set if anything changed since the last time; says whether it did."""
    async with db.read(Sight(PLATFORM)) as tx:
        if await store.revision(tx) == policy.revision:
            return False
    async with db.snapshot(Sight(PLATFORM)) as tx:
        policy.load(await store.revision(tx), await store.overrides(tx))
    return True


async def policy_follow(db: Database, policy: MemoryPolicy) -> None:
    """Keep it fresh until cancelled: by a hint at once, without one twice a second. A database that is away changes
    nothing: the last good values stay."""
    away = False
    while True:
        try:
            await policy_refresh(db, policy)
            away = False
        except (*AWAY, *AGAIN, Unavailable) as error:
            if not away:
                log.get_logger().warning("policy not refreshed: the last good values stay", reason=str(error))
            away = True
        try:
            async with asyncio.timeout(AWAY_SECONDS if away else POLL_SECONDS):
                await policy.hint.wait()
        except TimeoutError:
            pass
        policy.hint.clear()
