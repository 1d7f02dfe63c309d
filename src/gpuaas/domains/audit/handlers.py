"""The sealer: once a second, waiting audit rows become links of the chain."""

from gpuaas.domains.audit import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.signing import SigningKeys
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader

MAX_BATCHES = 100  # then the timer's next run goes on


@timer("audit.seal", every_seconds=1)
async def audit_seal(parts: Parts) -> None:
    db, keys = parts.get(Database), parts.get(SigningKeys)
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    for _ in range(MAX_BATCHES):
        if await service.audit_seal(db, keys, policy) < service.SEAL_BATCH:
            return
