"""From the certificate a peer proved to hold to the node it is.

Always holds: what decides is at most a second old; a no is never said from memory; when the database is away nobody
gets in; only a certificate we issued, byte for byte, inside its time, unrevoked and not replaced, names a node.

Agents speak every few seconds: read for each request, nothing would ever be remembered. So one question twice a second
asks for all who spoke lately which of them have fallen; whoever has is read anew, and hears why."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime
from uuid import UUID

from cryptography import x509

from gpuaas.contracts.actor import Actor, ActorKind
from gpuaas.contracts.error_codes import Code
from gpuaas.domains.pki.agents import store
from gpuaas.domains.pki.agents.models import Standing
from gpuaas.domains.pki.spiffe import node_of_certificate
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit import clock, log
from gpuaas.kit.errors import Denied, Fault, Unauthenticated
from gpuaas.kit.gathering import Gathering
from gpuaas.ports.policy import PolicyReader

CACHE_SECONDS = 0.9
LOOK_SECONDS = 0.4
IDLE_SECONDS = 60.0
"""Who was silent for so long is not asked about any more."""
MAX_CERTIFICATES = 20_000
SEES_ALL = Sight(PLATFORM)
NodesRefused = Callable[[Tx, Collection[UUID]], Awaitable[Collection[UUID]]]
"""Which of these nodes may not speak: disabled or removed. The domain of nodes knows."""


class Known:
    """A certificate seen before."""

    __slots__ = ("actor", "not_after", "read_at", "used_at")

    def __init__(self, actor: Actor, not_after: datetime, read_at: float) -> None:
        self.actor: Actor | None = actor
        self.not_after = not_after
        self.read_at = self.used_at = read_at

    def usable(self, not_before: float) -> Actor | None:
        return self.actor if self.read_at > not_before and self.not_after > clock.now() else None


class CertificateHolders:
    """Implements `ports.agent_authority.AgentAuthority`; one per process."""

    def __init__(self, db: Database, policy: PolicyReader, *, trust_domain: str, refused: NodesRefused) -> None:
        self._db = db
        self._policy = policy
        self._trust_domain = trust_domain
        self._refused = refused
        self._known: OrderedDict[bytes, Known] = OrderedDict()
        self._reading: Gathering[bytes, bytes, Actor] = Gathering(self._read)

    async def node(self, certificate: bytes | None) -> Actor:
        if certificate is None:
            raise Unauthenticated(Code.CREDENTIAL_MISSING, "Show the node's certificate.")
        fingerprint, oldest = hashlib.sha256(certificate).digest(), clock.monotonic() - CACHE_SECONDS
        known = self._known.get(fingerprint)
        if known is not None and (actor := known.usable(oldest)) is not None:
            self._known.move_to_end(fingerprint)
            known.used_at = clock.monotonic()
            return actor
        return await self._reading.ask(fingerprint, certificate)

    async def follow(self) -> None:
        """Until cancelled: keep what is known of those who speak less than a second old, all of them at once. While
        the database is away nothing is kept, and each request finds that out by itself."""
        trouble = ""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
                trouble = ""
            except Exception as error:  # noqa: BLE001 # whatever it is, the next look may go better
                reason = f"{type(error).__name__}: {error}"
                if reason != trouble:
                    log.get_logger().warning("certificates are not followed", reason=reason)
                trouble = reason

    async def look(self) -> None:
        """Ask once, for all who spoke lately."""
        started = clock.monotonic()
        asked = {
            fingerprint: (known, known.actor)
            for fingerprint, known in self._known.items()
            if known.actor is not None and known.used_at > started - IDLE_SECONDS
        }
        if not asked:
            return
        async with self._db.read(SEES_ALL) as tx:
            superseded = self._policy.number("pki.superseded_seconds")
            fallen = set(await store.fallen(tx, list(asked), superseded_seconds=superseded))
            refused = set(await self._refused(tx, [actor.id for _, actor in asked.values() if actor.id is not None]))
        for fingerprint, (known, actor) in asked.items():
            if fingerprint in fallen or actor.id in refused:
                known.actor = None
            elif known.actor is actor:  # nobody has read otherwise meanwhile
                known.read_at = max(known.read_at, started)

    async def _read(self, shown: Mapping[bytes, bytes]) -> dict[bytes, Actor | Exception]:
        """Certificates by fingerprint, read anew together: the node of each, or why it names none."""
        started = clock.monotonic()
        async with self._db.read(SEES_ALL) as tx:
            standings = await store.standings(tx, list(shown))
            refused = set(await self._refused(tx, [standing.node_id for standing in standings.values()]))
        answers: dict[bytes, Actor | Exception] = {}
        for fingerprint, certificate in shown.items():
            try:
                standing = self._checked(standings.get(fingerprint), certificate, refused)
                answers[fingerprint] = self._keep(standing, started)
            except Fault as fault:
                answers[fingerprint] = fault
                self._forget(fingerprint)
        unused = [f for f, answer in answers.items() if isinstance(answer, Actor) and not standings[f].used]
        if unused:
            await self._note_used(unused)
        return answers

    def _keep(self, standing: Standing, read_at: float) -> Actor:
        actor = Actor(
            kind=ActorKind.NODE,
            id=standing.node_id,
            credential_id=standing.serial,
            expires_at=int(standing.not_after.timestamp()),
        )
        self._known[standing.fingerprint] = Known(actor, standing.not_after, read_at)
        self._known.move_to_end(standing.fingerprint)
        if len(self._known) > MAX_CERTIFICATES:
            self._known.popitem(last=False)
        return actor

    def _forget(self, fingerprint: bytes) -> None:
        known = self._known.pop(fingerprint, None)
        if known is not None:
            known.actor = None

    async def _note_used(self, unused: list[bytes]) -> None:
        """Nobody is let in on a first use that was not noted: it is what ends the certificate before."""
        try:
            async with self._db.transaction(SEES_ALL, "system:pki") as tx:
                await store.note_used(tx, unused)
        except BaseException:
            for fingerprint in unused:
                self._forget(fingerprint)
            raise

    def _checked(self, standing: Standing | None, certificate: bytes, refused: Collection[UUID]) -> Standing:
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
        if standing.node_id in refused:
            raise Denied(Code.ACCOUNT_DISABLED, "This node is disabled or removed. Ask the operator.")
        return standing
