"""The agents' listener: the same process, its own port, mutual TLS, agents' operations and no others.

Always holds: its own certificate is of the nodes' authority, renewed while it runs; a rotation is followed within a
second or two without dropping a connection; a connection whose certificate is revoked is closed within a second."""

import asyncio
import functools
import hashlib
import socket
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from gpuaas.domains.pki import service
from gpuaas.domains.pki.agents.service import CertificateHolders
from gpuaas.domains.pki.site import Pki
from gpuaas.infra.ca.tls import ChangingTls
from gpuaas.infra.http.app import App
from gpuaas.infra.http.operation import REGISTRY
from gpuaas.infra.http.pipeline import Edge
from gpuaas.infra.http.server import AgentProtocol, QuietServer, serve
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit import clock, log

LOOK_SECONDS = 0.6
REVOKED_SECONDS = 10
HANDSHAKE_SECONDS = 10.0
TLS_END_SECONDS = 2.0
STOP_SECONDS = 3
KEEP_ALIVE_SECONDS = 75
BACKLOG = 2048
SEES_ALL = Sight(PLATFORM)
WHO = "system:agents-listener"


async def serve_agents(edge: Edge, listener: socket.socket, stop: asyncio.Event) -> None:
    """Serve until `stop`; begins once the database is there and has an authority to sign for us."""
    identity = ListenerIdentity(edge)
    first = asyncio.create_task(identity.established())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({first, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not first.done():
        first.cancel()
        listener.close()
        return
    first.result()
    app = App(REGISTRY, edge, pages={}, agents=True)
    server = AgentServer(_config(app, identity.tls))
    holders = edge.parts.get(CertificateHolders)
    following = [asyncio.create_task(work) for work in (_follow(identity, server), holders.follow())]
    try:
        await serve(server, listener, stop)
    finally:
        for task in following:
            task.cancel()


class ListenerIdentity:
    """The listener's own key and certificate, and whom it trusts. The key lives in this process only."""

    def __init__(self, edge: Edge) -> None:
        self._db, self._policy = edge.db, edge.policy
        self._pki = edge.parts.get(Pki)
        self._names = (urlsplit(self._pki.agent_url).hostname or "localhost",)
        key = ec.generate_private_key(ec.SECP256R1())
        self._key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self._public_key = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self._mark = self._trouble = ""
        self._renew_after = clock.now()
        self.revoked: frozenset[bytes] = frozenset()
        """Certificates revoked a moment ago, by fingerprint."""
        self.tls = ChangingTls()

    async def established(self) -> None:
        """Returns once there is a certificate: the database may come later, and be migrated later still."""
        while True:
            if await self.try_refresh():
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def try_refresh(self) -> bool:
        """Whether it went well; what is wrong is said once, not every moment."""
        try:
            await self.refresh()
        except Exception as error:  # noqa: BLE001 # whatever it is, the next look may go better
            reason = f"{type(error).__name__}: {error}"
            if reason != self._trouble:
                log.get_logger().warning("the agents' listener cannot look", reason=reason)
            self._trouble = reason
            return False
        self._trouble = ""
        return True

    async def refresh(self) -> None:
        """Follow a rotation; renew at half-life; see what was revoked."""
        await self._renew()
        async with self._db.read(SEES_ALL) as tx:
            self.revoked = await service.revoked_since(tx, REVOKED_SECONDS)

    async def _renew(self) -> None:
        if self._mark and clock.now() < self._renew_after:
            async with self._db.read(SEES_ALL) as tx:
                if await service.trust_mark(tx) == self._mark:
                    return
        seconds = self._policy.number("pki.server_certificate_seconds")
        async with self._db.transaction(SEES_ALL, WHO) as tx:
            issued = await service.server_issue(tx, self._pki, self._names, self._public_key, seconds=seconds)
            authorities = await service.trusted(tx)
            mark = await service.trust_mark(tx)
        self.tls.use(issued.chain, self._key, "".join(service.pem(a.certificate) for a in authorities))
        self._mark, self._renew_after = mark, issued.certificate.renew_after
        log.get_logger().info(
            "the agents' listener has a certificate",
            serial=issued.certificate.serial,
            not_after=issued.certificate.not_after.isoformat(),
            names=list(self._names),
        )


class AgentServer(QuietServer):
    """Handshakes and TLS farewells have a deadline: whoever connects and says nothing is gone soon."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        config = self.config
        protocol = functools.partial(
            AgentProtocol, config=config, server_state=self.server_state, app_state=self.lifespan.state
        )
        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(
                protocol,
                sock=one,
                ssl=config.ssl,
                backlog=config.backlog,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=TLS_END_SECONDS,
            )
            for one in sockets or []
        ]
        self.started = True

    def close_those_with(self, fingerprints: frozenset[bytes]) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, AgentProtocol) and _fingerprint(connection) in fingerprints:
                connection.transport.abort()


def _fingerprint(connection: AgentProtocol) -> bytes:
    return hashlib.sha256(connection.peer_certificate or b"").digest()


async def _follow(identity: ListenerIdentity, server: AgentServer) -> None:
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if await identity.try_refresh() and identity.revoked:
            server.close_those_with(identity.revoked)


def _config(app: Any, tls: ChangingTls) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=AgentProtocol,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        backlog=BACKLOG,
        ssl_context_factory=lambda *_: tls.context,
    )
