"""What the API is put together from. Everything is chosen here and nowhere else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec

from gpuaas.contracts.http.sessions import AuthConfig
from gpuaas.domains import load_routes
from gpuaas.domains.billing.invoices.models import Seller
from gpuaas.domains.identity.authority.service import CredentialAuthority
from gpuaas.domains.issuer.provider import Issuer
from gpuaas.domains.issuer.service import BuiltInKeys
from gpuaas.domains.nodes.registry.service import nodes_refused
from gpuaas.domains.notifications.links.tokens import LinkSigner
from gpuaas.domains.payments.site import PaymentSite
from gpuaas.domains.pki.agents.service import CertificateHolders
from gpuaas.domains.pki.site import Pki
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.domains.policy.service import policy_follow
from gpuaas.infra.ca.builtin import BuiltInCa
from gpuaas.infra.http.app import App
from gpuaas.infra.http.operation import REGISTRY
from gpuaas.infra.http.pipeline import Edge
from gpuaas.infra.http.request import proxy_networks
from gpuaas.infra.objects.store import open_objects
from gpuaas.infra.oidc.bounded_http import OWN_ORIGIN, BoundedHttp, OwnIssuer
from gpuaas.infra.oidc.client import OidcClient
from gpuaas.infra.oidc.discovery import DiscoveredKeys, Discovery, FixedMetadata, Metadata
from gpuaas.infra.oidc.keys import KeyCache
from gpuaas.infra.oidc.verifier import TokenVerifier, TrustedIssuer
from gpuaas.infra.passwords import Passwords
from gpuaas.infra.payments.opening import open_payments
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.health import DatabaseHealth
from gpuaas.infra.sealing import FieldSealer
from gpuaas.infra.signing import SigningKeys
from gpuaas.kit.parts import Parts
from gpuaas.kit.secrets import MasterKey
from gpuaas.processes.api.fleet import FleetTalk
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
    own = OwnIssuer()
    http = BoundedHttp(own)
    talk = FleetTalk(settings, db, policy)
    background = asyncio.gather(_keep_up(health, db, policy), talk.run())
    try:
        own.app = App(
            REGISTRY,
            _edge(settings, db, policy, http, talk),
            pages=pages(probes(health, policy), settings.public_url),
            proxies=proxy_networks(settings.trusted_proxies),
        )
        yield own.app
    finally:
        background.cancel()
        with suppress(asyncio.CancelledError):
            await background
        await http.close()
        await db.close()


async def _keep_up(health: DatabaseHealth, db: Database, policy: MemoryPolicy) -> None:
    """The API answers from its first moment, if only that it is not ready: the database may come later."""
    await health.open()
    await policy_follow(db, policy)


def _edge(settings: Settings, db: Database, policy: MemoryPolicy, http: BoundedHttp, talk: FleetTalk) -> Edge:
    master = MasterKey.from_text(settings.master_key)
    signing = SigningKeys(master)
    keys, client = _issuer(settings, db, signing, http)
    verifier = TokenVerifier(TrustedIssuer(settings.issuer, settings.oidc_audience, keys, own=settings.builtin_issuer))
    authority = CredentialAuthority(db, verifier, client)
    parts = Parts(
        settings,
        db,
        policy,
        master,
        signing,
        keys,
        verifier,
        client,
        authority,
        Issuer.at(settings.public_url),
        Passwords(),
        REGISTRY,
    )
    parts.add(
        AuthConfig(issuer=settings.issuer, cli_client_id=settings.oidc_cli_client_id, audience=settings.oidc_audience)
    )
    parts.add(FieldSealer(master))
    parts.add(LinkSigner(master, settings.public_url))
    talk.add_to(parts)
    parts.add(Pki(ca=BuiltInCa(master), trust_domain=settings.trust_domain, agent_url=settings.agents_url))
    parts.add(open_objects(settings.objects_url))
    parts.add(Seller(settings.invoice_seller))
    parts.add(open_payments(settings.stripe_secret_key, settings.stripe_api_base))
    parts.add(PaymentSite(settings.public_url))
    agents = CertificateHolders(db, policy, trust_domain=settings.trust_domain, refused=nodes_refused)
    parts.add(agents)
    return Edge(
        db=db,
        authority=authority,
        policy=policy,
        cursor_key=master.cursor_key,
        parts=parts,
        agents=agents,
        ready=lambda: policy.loaded,
    )


def _issuer(settings: Settings, db: Database, signing: SigningKeys, http: BoundedHttp) -> tuple[KeyCache, OidcClient]:
    """The keys of the issuer we trust, and our client there: the built-in one, or any other by discovery."""
    if settings.builtin_issuer:
        metadata = msgspec.convert(Issuer.at(settings.public_url).discovery(), Metadata)
        ours = OWN_ORIGIN + "/oidc"
        metadata = msgspec.structs.replace(
            metadata,
            token_endpoint=ours + "/token",
            revocation_endpoint=ours + "/revoke",
            userinfo_endpoint=ours + "/userinfo",
        )
        client = OidcClient(
            FixedMetadata(metadata),
            http,
            client_id=settings.oidc_client_id,
            public_url=settings.public_url,
            scopes="openid profile email",
        )
        return KeyCache(BuiltInKeys(db, signing)), client
    discovery = Discovery(settings.issuer_url, http)
    client = OidcClient(
        discovery,
        http,
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret,
        audience=settings.oidc_audience,
        public_url=settings.public_url,
    )
    return KeyCache(DiscoveredKeys(discovery, http)), client
