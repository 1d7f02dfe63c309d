"""Operations for those who operate an installation. They read; what they find is fixed by other operations."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.admin import Health, ProcessStats, Verification, VerifyQuery
from gpuaas.contracts.permissions import P
from gpuaas.domains.admin import service
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.http.app import App
from gpuaas.infra.http.context import PlatformContext
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.infra.signing import SigningKeys


@operation(
    "GET",
    "/ops/verify",
    permission=P.PLATFORM_READ,
    lane=Lane.ADMIN,
    transaction=False,
    errors=(Code.REQUEST_IN_PROGRESS,),
)
async def ops_verify(cx: PlatformContext, query: VerifyQuery) -> Verification:
    """Check everything that must hold, and recompute the audit chain, in one snapshot.

    Reads all of the audit log: on a large one, give chain_from to check from a link on. One at a time: a second one
    hears that one is under way."""
    return await service.ops_verify(cx.db, cx.parts.get(SigningKeys), chain_from=query.chain_from)


@operation("GET", "/ops/health", permission=P.PLATFORM_READ, lane=Lane.DEFAULT, transaction=False)
async def ops_health(cx: PlatformContext) -> Health:
    """Tell what is behind or away: database, migrations, relay, consumers, dead letters, audit, policy."""
    return await service.ops_health(cx.db, cx.parts.get(MemoryPolicy))


@operation("GET", "/internal/stats", permission=P.PLATFORM_READ, lane=Lane.DEFAULT, transaction=False)
async def process_stats(cx: PlatformContext) -> ProcessStats:
    """Tell how the program that answers fares: memory, connections, requests in flight."""
    return service.process_stats(cx.parts.get(App), cx.db, cx.parts.get(MemoryPolicy))
