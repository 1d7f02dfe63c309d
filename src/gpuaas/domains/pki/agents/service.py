"""From the certificate a peer proved to hold to the node it is.

Always holds: what decides is at most a second old; a no is never said from memory; when the database is away nobody
gets in; only a certificate we issued, byte for byte, inside its time, unrevoked and not replaced, names a node."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from uuid import UUID

from cryptography import x509

from gpuaas.contracts.actor import Actor, ActorKind
from gpuaas.contracts.error_codes import Code
from gpuaas.domains.pki.agents import store
from gpuaas.domains.pki.agents.models import Standing
from gpuaas.domains.pki.spiffe import node_of_certificate
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit import clock
from gpuaas.kit.errors import Denied, Fault, Unauthenticated
from gpuaas.ports.policy import PolicyReader

CACHE_SECONDS = 0.9
MAX_CERTIFICATES = 20_000
SEES_ALL = Sight(PLATFORM)
NodeAllowed = Callable[[Tx, UUID], Awaitable[bool]]
"""Whether the node may speak: neither disabled nor removed. The domain of nodes knows."""


class Known:
    """A certificate seen before. The lock lets one request read for all that wait."""

    __slots__ = ("actor", "lock", "not_after", "read_at")

    def __init__(self) -> None:
        self.actor: Actor | None = None
        self.not_after = clock.now()
        self.read_at = float("-inf")
        self.lock = asyncio.Lock()

    def usable(self, not_before: float) -> Actor | None:
        return self.actor if self.read_at > not_before and self.not_after > clock.now() else None


class CertificateHolders:
    """Implements `ports.agent_authority.AgentAuthority`; one per process."""

    def __init__(self, db: Database, policy: PolicyReader, *, trust_domain: str, allowed: NodeAllowed) -> None:
        self._db = db
        self._policy = policy
        self._trust_domain = trust_domain
        self._allowed = allowed
        self._known: OrderedDict[bytes, Known] = OrderedDict()

    async def node(self, certificate: bytes | None) -> Actor:
        if certificate is None:
            raise Unauthenticated(Code.CREDENTIAL_MISSING, "Show the node's certificate.")
        fingerprint, oldest = hashlib.sha256(certificate).digest(), clock.monotonic() - CACHE_SECONDS
        known = self._known.get(fingerprint)
        if known is not None and (actor := known.usable(oldest)) is not None:
            self._known.move_to_end(fingerprint)
            return actor
        if known is None:
            known = self._known[fingerprint] = Known()
            if len(self._known) > MAX_CERTIFICATES:
                self._known.popitem(last=False)
        try:
            return await self._read(known, fingerprint, certificate, oldest)
        except Fault:
            self._known.pop(fingerprint, None)
            raise

    async def _read(self, known: Known, fingerprint: bytes, certificate: bytes, oldest: float) -> Actor:
        async with known.lock:
            if (actor := known.usable(oldest)) is not None:
                return actor  # somebody read it while we waited
            known.actor = None
            started = clock.monotonic()
            async with self._db.read(SEES_ALL) as tx:
                standing = await store.standing(tx, fingerprint)
                self._check(standing, certificate)
                assert standing is not None  # noqa: S101 # checked above
                if not await self._allowed(tx, standing.node_id):
                    raise Denied(Code.ACCOUNT_DISABLED, "This node is disabled or removed. Ask the operator.")
            if not standing.used:
                async with self._db.transaction(SEES_ALL, "system:pki") as tx:
                    await store.note_used(tx, fingerprint)
            known.actor = Actor(
                kind=ActorKind.NODE,
                id=standing.node_id,
                credential_id=standing.serial,
                expires_at=int(standing.not_after.timestamp()),
            )
            known.not_after, known.read_at = standing.not_after, started
            return known.actor

    def _check(self, standing: Standing | None, certificate: bytes) -> None:
        if standing is None or not standing.authority_trusted:
            raise Unauthenticated(Code.CREDENTIAL_INVALID, "This certificate is not one that counts here.")
        if standing.revoked:
            raise Unauthenticated(Code.CREDENTIAL_REVOKED, "This certificate was revoked. Ask the operator.")
        replaced = standing.superseded_for
        if replaced is not None and replaced > self._policy.number("pki.superseded_seconds"):
            raise Unauthenticated(Code.CREDENTIAL_REVOKED, "This certificate was replaced by a newer one.")
        if not standing.not_before <= clock.now() < standing.not_after:
            raise Unauthenticated(Code.CREDENTIAL_EXPIRED, "This certificate is not valid now. Enrol the node again.")
        if node_of_certificate(self._trust_domain, x509.load_der_x509_certificate(certificate)) != standing.node_id:
            raise Unauthenticated(Code.CREDENTIAL_INVALID, "This certificate does not name its node.")
