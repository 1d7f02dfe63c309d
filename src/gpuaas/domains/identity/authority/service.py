"""From a credential to the actor behind it: access tokens of the issuers we trust, and service accounts' keys.

Always holds: what decides (revocation, state, roles) is at most a second old and read in one statement; a no is never
said from memory; when the database is away nobody gets in; the first login of a subject makes its user once."""

import asyncio
from collections import OrderedDict
from datetime import datetime
from typing import Protocol
from uuid import UUID

import asyncpg
import msgspec

from gpuaas.contracts.actor import Actor, ActorKind
from gpuaas.contracts.error_codes import CATALOGUE, Code
from gpuaas.contracts.http.users import UserState
from gpuaas.contracts.tokens import SERVICE_ACCOUNT_KIND
from gpuaas.domains.identity.authority import store
from gpuaas.domains.identity.authority.models import KeyStanding, UserStanding
from gpuaas.domains.identity.users import service as users
from gpuaas.infra.oidc.verifier import LEEWAY_SECONDS, Claims, TokenVerifier, clean_email, clean_name
from gpuaas.infra.postgres.database import AWAY, Database
from gpuaas.infra.postgres.finish import AuditEntry, finish
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit import clock, log
from gpuaas.kit.errors import Fault
from gpuaas.kit.ids import OrgId, ProjectId, UserId, new_id
from gpuaas.kit.secrets import SERVICE_KEY_PREFIX, token_hash

CACHE_SECONDS = 0.9
MAX_CREDENTIALS = 20_000
MAX_PROJECTS = 20_000
SEES_ALL = Sight(PLATFORM)
SYSTEM = "system:identity"


class Userinfo(Protocol):
    """Where to ask an issuer about a subject its access token says too little of."""

    async def userinfo(self, access_token: str) -> dict[str, object]: ...


class Recent:
    """Actors by the credential itself, for the second they may be remembered: what nearly every request asks, at the
    price of a lookup. Credentials are kept in clear here, so all of them are dropped whenever that second is over."""

    def __init__(self) -> None:
        self._actors: dict[str, tuple[float, Actor]] = {}
        self._drop_at = 0.0

    def get(self, credential: str) -> Actor | None:
        found = self._actors.get(credential)
        return found[1] if found is not None and found[0] > clock.monotonic() else None

    def put(self, credential: str, actor: Actor, until: float) -> None:
        now = clock.monotonic()
        if now > self._drop_at or len(self._actors) >= MAX_CREDENTIALS:
            self._actors, self._drop_at = {}, now + CACHE_SECONDS
        self._actors[credential] = (until, actor)

    def drop(self, credential: str) -> None:
        self._actors.pop(credential, None)


class Known:
    """A credential seen before. The lock lets one request read for all that wait."""

    __slots__ = ("actor", "claims", "lock", "read_at", "until", "usable_until")

    def __init__(self) -> None:
        self.claims: Claims | None = None
        self.actor: Actor | None = None
        self.read_at = float("-inf")
        self.usable_until = 0
        """When the credential itself ends, in seconds since 1970."""
        self.until = float("-inf")
        """Up to when the actor may be given without reading: monotonic, like `read_at`."""
        self.lock = asyncio.Lock()


class CredentialAuthority:
    """Implements `ports.authority.Authority`; one per process."""

    def __init__(self, db: Database, verifier: TokenVerifier, userinfo: Userinfo | None = None) -> None:
        self._db = db
        self._verifier = verifier
        self._userinfo = userinfo
        self._known: OrderedDict[bytes, Known] = OrderedDict()
        self._recent = Recent()
        self.recall = self._recent.get
        self._orgs: OrderedDict[ProjectId, tuple[float, OrgId]] = OrderedDict()

    async def actor(self, credential: str, *, fresh: bool = False) -> Actor:
        arrived = clock.monotonic()
        digest = token_hash(credential)
        known = self._known.get(digest)
        if known is not None and not fresh and known.actor is not None and known.until > arrived:
            self._known.move_to_end(digest)
            self._recent.put(credential, known.actor, known.until)
            return known.actor
        if known is None:
            known = self._known[digest] = Known()
            if len(self._known) > MAX_CREDENTIALS:
                self._known.popitem(last=False)
        try:
            return await self._read(known, credential, arrived if fresh else arrived - CACHE_SECONDS)
        except Fault:
            self._known.pop(digest, None)
            self._recent.drop(credential)
            raise

    async def welcome(self, access_token: str, said: Claims) -> Actor:
        """A login that was finished here: the ID token often tells more of the person than the access token does."""
        claims = await self._verifier.access_token(access_token)
        if (claims.issuer, claims.subject) != (said.issuer, said.subject):
            raise _no(Code.CREDENTIAL_INVALID, "the ID token and the access token are of two subjects")
        if not claims.email:
            claims = msgspec.structs.replace(
                claims, email=said.email, email_verified=said.email_verified, name=claims.name or said.name
            )
        standing = await self._user_standing(claims)
        if standing.id is None and not standing.revoked:
            await self._first_login(claims, access_token)
        elif standing.id is not None and standing.stale:
            await self._note(_Seen(standing.id, claims.email, claims.email_verified))
        return await self.actor(access_token, fresh=True)

    async def org_of(self, project_id: ProjectId) -> OrgId | None:
        """A yes may be a second old, and whoever uses it looks at the project itself; a no is always read."""
        found = self._orgs.get(project_id)
        now = clock.monotonic()
        if found is not None and found[0] > now - CACHE_SECONDS:
            return found[1]
        async with self._db.read(SEES_ALL) as tx:
            org_id = await store.org_of(tx, project_id)
        self._orgs.pop(project_id, None)
        if org_id is not None:
            self._orgs[project_id] = (now, org_id)
            if len(self._orgs) > MAX_PROJECTS:
                self._orgs.popitem(last=False)
        return org_id

    async def org_exists(self, org_id: OrgId) -> bool:
        async with self._db.read(SEES_ALL) as tx:
            return await store.org_exists(tx, org_id)

    async def _read(self, known: Known, credential: str, not_before: float) -> Actor:
        async with known.lock:
            if known.actor is not None and known.read_at > not_before and known.usable_until > clock.epoch_s():
                return known.actor  # somebody read it while we waited
            known.actor = None
            started = clock.monotonic()
            if credential.startswith(SERVICE_KEY_PREFIX):
                actor = await self._of_key(token_hash(credential))
                known.usable_until = actor.expires_at
            else:
                actor = await self._of_token(known, credential)
                known.usable_until = actor.expires_at + LEEWAY_SECONDS
            known.actor, known.read_at = actor, started
            known.until = started + min(CACHE_SECONDS, known.usable_until - clock.epoch_ms() / 1000)
            self._recent.put(credential, actor, known.until)
            return actor

    async def _of_key(self, key_hash: bytes) -> Actor:
        async with self._db.read(SEES_ALL) as tx:
            standing = await store.key_by_hash(tx, key_hash)
        return await self._account(standing, None)

    async def _of_token(self, known: Known, token: str) -> Actor:
        if (
            known.claims is None
            or known.usable_until <= clock.epoch_s()
            or not (await self._verifier.still_holds(known.claims))
        ):
            known.claims = await self._verifier.access_token(token)
        claims = known.claims
        if claims.kind == SERVICE_ACCOUNT_KIND:
            return await self._of_account_token(known, claims, token)
        standing = await self._user_standing(claims)
        if await self._verifier.obey(standing.marked_at):
            known.claims = claims = await self._verifier.access_token(token)
        if standing.revoked:
            raise _no(Code.CREDENTIAL_REVOKED)
        if standing.id is None:
            await self._first_login(claims, token)
            standing = await self._user_standing(claims)
        if standing.stale and standing.id is not None:
            await self._note(_Seen(standing.id, claims.email, claims.email_verified))
        return _user(standing, claims)

    async def _of_account_token(self, known: Known, claims: Claims, token: str) -> Actor:
        """A token got for a service account's key: it lives no longer than the key and the account."""
        try:
            key_id = UUID(claims.key_id)
        except ValueError:
            raise _no(Code.CREDENTIAL_INVALID, "a service account's token without a key's id") from None
        async with self._db.read(SEES_ALL) as tx:
            standing = await store.key_by_id(tx, key_id, credential_id=claims.credential_id)
        if standing is not None and await self._verifier.obey(standing.marked_at):
            known.claims = claims = await self._verifier.access_token(token)
        if standing is not None and str(standing.id) != claims.subject:
            raise _no(Code.CREDENTIAL_INVALID, "the key is not this service account's")
        return await self._account(standing, claims)

    async def _user_standing(self, claims: Claims) -> UserStanding:
        async with self._db.read(SEES_ALL) as tx:
            return await store.user_standing(
                tx,
                claims.issuer,
                claims.subject,
                credential_id=claims.credential_id,
                email=claims.email,
                email_verified=claims.email_verified,
            )

    async def _account(self, standing: KeyStanding | None, claims: Claims | None) -> Actor:
        actor = account_actor(standing)
        if standing is not None and standing.stale:
            await self._note(standing)
        if claims is None:
            return actor
        return msgspec.structs.replace(
            actor,
            credential_id=claims.credential_id,
            issuer=claims.issuer,
            expires_at=min(claims.expires_at, actor.expires_at),
        )

    async def _first_login(self, claims: Claims, token: str) -> None:
        claims = await self._completed(claims, token)
        async with self._db.unfinished(SEES_ALL, SYSTEM) as tx:
            user, org_id = await users.user_ensure(
                tx,
                issuer=claims.issuer,
                subject=claims.subject,
                email=claims.email,
                email_verified=claims.email_verified,
                name=claims.name,
            )
            await finish(tx, _creation(user.id, org_id, claims.issuer) if org_id else None)

    async def _completed(self, claims: Claims, token: str) -> Claims:
        """Many issuers tell the address only at their userinfo endpoint. Without an answer the user has none yet."""
        if claims.email or self._userinfo is None:
            return claims
        try:
            told = await self._userinfo.userinfo(token)
        except Fault as fault:
            log.get_logger().warning("userinfo not read", reason=fault.log or fault.message)
            return claims
        if told.get("sub") != claims.subject:
            return claims
        return msgspec.structs.replace(
            claims,
            email=clean_email(told.get("email")),
            email_verified=told.get("email_verified") in (True, "true"),
            name=claims.name or clean_name(told.get("name")) or clean_name(told.get("preferred_username")),
        )

    async def _note(self, what: "_Seen | KeyStanding") -> None:
        """Note the use. A database that cannot write now keeps nobody out."""
        try:
            async with self._db.unfinished(SEES_ALL, SYSTEM) as tx:
                if isinstance(what, KeyStanding):
                    await store.key_used(tx, what.key_id)
                else:
                    await users.user_seen(tx, what.user_id, email=what.email, email_verified=what.email_verified)
        except (Fault, asyncpg.PostgresError, *AWAY) as error:
            log.get_logger().warning("last use not noted", reason=str(error))


class _Seen(msgspec.Struct, frozen=True):
    user_id: UserId
    email: str
    email_verified: bool


async def user_actor(tx: Tx, user_id: UserId) -> Actor | None:
    """A user by what we signed for him, with the roles he has now; None when he is disabled. Sees the platform."""
    user = await users.user_get(tx, user_id)
    if user.state is not UserState.ACTIVE:
        return None
    orgs, projects = await users.user_memberships(tx, user_id)
    return Actor(
        kind=ActorKind.USER,
        id=user.id,
        name=user.name,
        email=user.email,
        org_roles={OrgId(org.org_id): org.role for org in orgs},
        project_roles={ProjectId(project.project_id): project.role for project in projects},
        issuer=user.issuer,
    )


async def service_account_by_key(tx: Tx, key: str) -> Actor:
    """The service account a key belongs to, or Unauthenticated. The transaction must see the platform."""
    if not key.startswith(SERVICE_KEY_PREFIX):
        raise _no(Code.CREDENTIAL_INVALID)
    return account_actor(await store.key_by_hash(tx, token_hash(key)))


def account_actor(standing: KeyStanding | None) -> Actor:
    if standing is None:
        raise _no(Code.CREDENTIAL_INVALID)
    if standing.revoked:
        raise _no(Code.CREDENTIAL_REVOKED)
    if standing.expired:
        raise _no(Code.CREDENTIAL_EXPIRED)
    in_project = standing.project_id is not None
    return Actor(
        kind=ActorKind.SERVICE_ACCOUNT,
        id=standing.id,
        name=standing.name,
        org_roles={} if in_project else {standing.org_id: standing.role},
        project_roles={standing.project_id: standing.role} if standing.project_id is not None else {},
        allowed_operations=standing.allowed_operations,
        credential_id=str(standing.key_id),
        expires_at=_epoch(standing.expires_at),
    )


def _user(standing: UserStanding, claims: Claims) -> Actor:
    if standing.id is None:
        raise _no(Code.CREDENTIAL_INVALID, "the user was not created")
    if standing.state is not UserState.ACTIVE:
        raise _no(Code.ACCOUNT_DISABLED)
    return Actor(
        kind=ActorKind.USER,
        id=standing.id,
        name=standing.name or "",
        email=claims.email or standing.email or "",
        platform_roles=frozenset(standing.platform_roles or ()),
        org_roles=standing.org_roles,
        project_roles=standing.project_roles,
        credential_id=claims.credential_id,
        issuer=claims.issuer,
        expires_at=claims.expires_at,
    )


def _creation(user_id: UserId, org_id: OrgId, issuer: str) -> AuditEntry:
    """Nobody asked for it by an operation, so it is written here, like every change."""
    details = msgspec.json.encode({"issuer": log.scrub_text(issuer), "personal_org_id": org_id}).decode()
    return AuditEntry(
        id=new_id(),
        action="user.create",
        operation="first_login",
        actor_kind=ActorKind.SYSTEM,
        actor_id=None,
        actor_name=SYSTEM,
        org_id=org_id,
        project_id=None,
        subject_id=user_id,
        correlation_id=log.correlation_id.get(),
        client_ip="",
        details=details,
    )


def _epoch(at: datetime) -> int:
    return int(at.timestamp())


def _no(code: Code, why: str = "") -> Fault:
    kind, sentence = CATALOGUE[code]
    return kind(code, sentence, log=why)
