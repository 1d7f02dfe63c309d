"""What the API is put together from. Everything is chosen here and nowhere else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from gpuaas.contracts.http.sessions import AuthConfig
from gpuaas.domains import load_routes
from gpuaas.domains.identity.authority.service import CredentialAuthority
from gpuaas.domains.issuer.provider import Issuer
from gpuaas.domains.issuer.service import BuiltInKeys
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.domains.policy.service import policy_follow
from gpuaas.infra.http.app import App
from gpuaas.infra.http.operation import REGISTRY
from gpuaas.infra.http.pipeline import Edge
from gpuaas.infra.http.request import proxy_networks
from gpuaas.infra.oidc.keys import KeyCache
from gpuaas.infra.oidc.verifier import TokenVerifier, TrustedIssuer
from gpuaas.infra.passwords import Passwords
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.health import DatabaseHealth
from gpuaas.infra.signing import SigningKeys
from gpuaas.kit.parts import Parts
from gpuaas.kit.secrets import MasterKey
from gpuaas.processes.api.pages import pages, probes
from gpuaas.processes.settings import Settings


@asynccontextmanager
async def assemble(settings: Settings) -> AsyncIterator[App]:
    """The application, with its connections open; closed again at the end."""
    load_routes()
    db = Database(
        settings.database_url, read_pool_size=settings.read_pool_size, write_pool_size=settings.write_pool_size
    )
    policy = MemoryPolicy()
    health = DatabaseHealth(db)
    background = asyncio.create_task(_keep_up(health, db, policy))
    try:
        yield App(
            REGISTRY, _edge(settings, db, policy), pages=pages(probes(health, policy)),
            proxies=proxy_networks(settings.trusted_proxies),
        )
    finally:
        background.cancel()
        with suppress(asyncio.CancelledError):
            await background
        await db.close()


async def _keep_up(health: DatabaseHealth, db: Database, policy: MemoryPolicy) -> None:
    """The API answers from its first moment, if only that it is not ready: the database may come later."""
    await health.open()
    await policy_follow(db, policy)


def _edge(settings: Settings, db: Database, policy: MemoryPolicy) -> Edge:
    master = MasterKey.from_text(settings.master_key)
    signing = SigningKeys(master)
    keys = KeyCache(BuiltInKeys(db, signing))
    verifier = TokenVerifier(TrustedIssuer(settings.issuer, settings.oidc_audience, keys, own=True))
    authority = CredentialAuthority(db, verifier)
    parts = Parts(
        settings, db, policy, master, signing, keys, verifier, authority, Issuer.at(settings.public_url), Passwords()
    )
    parts.add(AuthConfig(
        issuer=settings.issuer, cli_client_id=settings.oidc_cli_client_id, audience=settings.oidc_audience))
    return Edge(db=db, authority=authority, policy=policy, cursor_key=master.cursor_key, parts=parts)
