"""The way every request goes, compiled from its operation's declaration:

auth → allow-list → scope → permission → rate → decode → idempotency → transaction → handler → audit + events → commit.

Always holds: a handler runs only for an actor who may; a change, its audit row, its events and its stored answer commit
together; the same key never has two effects."""

import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from gpuaas.contracts.actor import ANONYMOUS, Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.infra.http import access
from gpuaas.infra.http.context import Context, Scope
from gpuaas.infra.http.operation import Exchange, Lane, Operation, Raw, Stream, Wire
from gpuaas.infra.http.query import QueryReader
from gpuaas.infra.http.rate import RateLanes
from gpuaas.infra.http.request import Request, decode_json, in_words, invalid, pairs
from gpuaas.infra.http.turns import Turns
from gpuaas.infra.postgres.database import AGAIN, Database
from gpuaas.infra.postgres.finish import AuditEntry, StoredAnswer, finish
from gpuaas.infra.postgres.tx import NIL, PLATFORM, Row, Sight, Tx
from gpuaas.kit import clock, log
from gpuaas.kit.errors import Conflict, Denied, Fault, Invalid, Missing, Refused, Unauthenticated
from gpuaas.kit.ids import OrgId, ProjectId, new_id
from gpuaas.kit.paging import CursorRefused, Cursors
from gpuaas.kit.parts import Parts
from gpuaas.ports.agent_authority import AgentAuthority
from gpuaas.ports.authority import Authority
from gpuaas.ports.policy import PolicyReader

TRIES = 3
STREAM_TRUST_SECONDS = 1.0
"""How old the knowledge may be by which a chunk of a stream is sent: as old as any actor's."""
JSON = b"application/json"
_KEY = re.compile(rb"^[\x21-\x7e]{1,200}$")
_ENCODER = msgspec.json.Encoder()
CLAIM = """
INSERT INTO idempotency_keys (actor_id, key, operation, request_hash) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING RETURNING true
"""
STORED = "SELECT request_hash, status, body FROM idempotency_keys WHERE actor_id = $1 AND key = $2"


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Edge:
    """What all pipelines share; put together by a program's main."""

    def __init__(
        self,
        *,
        db: Database,
        authority: Authority,
        policy: PolicyReader,
        cursor_key: bytes,
        parts: Parts,
        agents: AgentAuthority | None = None,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        """`ready`: whether what decides is there; before that nothing is decided."""
        self.ready = ready
        self.db = db
        self.authority = authority
        self.agents = agents
        self.policy = policy
        self.rates = RateLanes(db, policy)
        self.turns = Turns()
        self.cursors = Cursors(cursor_key)
        self.request_key = hashlib.sha256(b"requests:" + cursor_key).digest()
        self.parts = parts


class Pipeline:
    """One operation, ready to run."""

    def __init__(self, operation: Operation, edge: Edge) -> None:
        self.operation = operation
        self.name, self.wire = operation.id, operation.wire
        self._edge = edge
        self._decoder = msgspec.json.Decoder(operation.body) if operation.speaks_json and operation.body else None
        self._query = QueryReader(operation.query) if operation.wire is Wire.JSON and operation.query else None
        self._body_name = _body_name(operation)
        self._one_time = operation.one_time_fields
        self._takes_nothing = operation.speaks_json and operation.query is None and not operation.mutates
        # Said once, here: a declaration's properties cost more than the checks they are for.
        self._mutates = operation.mutates
        self._by_bearer = operation.scope is not Scope.PUBLIC and operation.scope is not Scope.AGENT
        self._in_org = operation.scope is Scope.ORG or operation.scope is Scope.PROJECT
        self._allow_listed = operation.wire is Wire.JSON
        self._in_memory = operation.lane is Lane.DEFAULT

    async def run(self, request: Request, values: list[str]) -> tuple[Answer | Stream, Actor]:
        """Who is it, and may he; then what he asks for. A remembered actor may be let in; a no is never said from
        memory."""
        try:
            actor = self._recall(request) or await self._authenticate(request, fresh=False)
            cx, arguments = await self._admit(request, values, actor)
        except (Missing, Denied):
            if not self._by_bearer:
                raise
            return await self._look_again(request, values)
        return await self._proceed(cx, request, arguments)

    async def _look_again(self, request: Request, values: list[str]) -> tuple[Answer | Stream, Actor]:
        try:
            actor = await self._authenticate(request, fresh=True)
            cx, arguments = await self._admit(request, values, actor)
        except (Missing, Denied):
            await self._take_place(request, await self._authenticate(request, fresh=False))
            given = await self._given_before(request)
            if given is None:
                raise
            return given
        return await self._proceed(cx, request, arguments)

    async def _proceed(self, cx: Context, request: Request, arguments: dict[str, Any]) -> tuple[Answer | Stream, Actor]:
        op = self.operation
        if self._in_memory and cx.actor.id:
            self._edge.rates.take_default(cx.actor.subject)
        else:
            await self._take_place(request, cx.actor)
        body = b"" if self._takes_nothing and not request.query_string else await self._decode(request, arguments)
        try:
            if self._mutates:
                return await self._change(cx, request, arguments, body), cx.actor
            answer = await self._read(cx, request, arguments)
            return (self._guarded(cx, request, answer) if type(answer) is Stream else answer), cx.actor
        except Unauthenticated:
            if op.lane is Lane.ENROLMENT:
                await self._edge.rates.take(Lane.AUTH, request.client_ip)
            raise
        except CursorRefused as error:
            raise Invalid(Code.CURSOR_REFUSED, "The cursor was not made for this list. Start without it.") from error

    def _guarded(self, cx: Context, request: Request, stream: Stream) -> Stream:
        return msgspec.structs.replace(stream, chunks=self._while_let_in(cx, request, stream.chunks))

    async def _while_let_in(
        self, cx: Context, request: Request, chunks: AsyncIterator[bytes]
    ) -> AsyncGenerator[bytes, None]:
        """A stream may outlast its reader's rights: who may not see it any more is sent nothing more of it."""
        looked = clock.monotonic()
        try:
            async for chunk in chunks:
                if self._by_bearer and clock.monotonic() - looked >= STREAM_TRUST_SECONDS:
                    actor, looked = await self._authenticate(request, fresh=False), clock.monotonic()
                    if self.operation.permission is not None:
                        access.require(actor, self.operation.permission, cx.org_id_or_none, cx.project_id_or_none)
                yield chunk
        finally:
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()

    async def _take_place(self, request: Request, actor: Actor) -> None:
        """In the operation's rate lane. Being refused takes one too: a no is read from the database each time."""
        subject = actor.subject if actor.id else request.client_ip
        if self.operation.lane is Lane.ENROLMENT:
            await self._edge.rates.check_open(Lane.AUTH, subject)
        await self._edge.rates.take(self.operation.lane, subject)

    async def _given_before(self, request: Request) -> tuple[Answer, Actor] | None:
        """The answer to a change that took away its own ground: the organisation is deleted, its member has left.
        Whoever repeats exactly that request hears what he heard, not that there is nothing."""
        op = self.operation
        if not op.idempotent_by_key or op.scope is Scope.PUBLIC:
            return None
        try:
            key = _idempotency_key(request)
            cx = self._context(request, await self._authenticate(request, fresh=False))
            access.check_allow_list(cx.actor, op.id)
            stored = await self._stored(cx, key)
            if stored is None:
                return None
            return _replay(stored, self._digest(request, await request.body(op.body_limit))), cx.actor
        except Fault:
            return None

    def _context(self, request: Request, actor: Actor) -> Context:
        edge = self._edge
        return self.operation.context(
            actor,
            request.correlation_id,
            request.client_ip,
            request.headers,
            edge.db,
            edge.policy,
            edge.parts,
            edge.cursors,
        )

    async def _admit(self, request: Request, values: list[str], actor: Actor) -> tuple[Context, dict[str, Any]]:
        op = self.operation
        cx = self._context(request, actor)
        if self._allow_listed:
            access.check_allow_list(actor, op.id)
        arguments = _path_arguments(op, values) if values else {}
        if self._in_org:
            await self._resolve(cx, arguments)
        if op.permission is not None:
            access.require(actor, op.permission, cx.org_id_or_none, cx.project_id_or_none)
        return cx, arguments

    def _recall(self, request: Request) -> Actor | None:
        """Who it is, if he was read less than a second ago and his address is above suspicion."""
        if not self._by_bearer or self._edge.rates.suspects(request.client_ip):
            return None
        credential = request.plain_bearer()
        return None if credential is None else self._edge.authority.recall(credential)

    async def _authenticate(self, request: Request, *, fresh: bool) -> Actor:
        if not self._by_bearer:
            if self.operation.scope is Scope.PUBLIC:
                return ANONYMOUS
            if self._edge.agents is None:
                raise Unauthenticated(Code.CREDENTIAL_MISSING, "Nodes are not spoken with here.")
            return await self._edge.agents.node(request.peer_certificate)
        self._edge.rates.check_guessing(request.client_ip)
        try:
            return await self._edge.authority.actor(request.bearer(), fresh=fresh)
        except (Unauthenticated, Denied):
            self._edge.rates.failed_login(request.client_ip)
            raise

    async def _resolve(self, cx: Context, arguments: dict[str, Any]) -> None:
        """Find the organisation and project the request acts in. What is not the actor's is as if it were not."""
        scope, actor = self.operation.scope, cx.actor
        if scope is Scope.ORG:
            org_id = OrgId(arguments.pop("org_id"))
            if not access.belongs(actor, org_id) or (
                org_id not in actor.org_roles and not await self._edge.authority.org_exists(org_id)
            ):
                raise Missing(Code.ORG_MISSING, "There is no such organisation, or you are not in it.")
            cx.org_id_or_none = org_id
        elif scope is Scope.PROJECT:
            project_id = ProjectId(arguments.pop("project_id"))
            owner = await self._edge.authority.org_of(project_id)
            if owner is None or not access.belongs(actor, owner, project_id):
                raise Missing(Code.PROJECT_MISSING, "There is no such project, or you are not in its organisation.")
            cx.org_id_or_none, cx.project_id_or_none = owner, project_id

    def _sight(self, cx: Context) -> Sight:
        actor = cx.actor.id or NIL
        if self.operation.scope is Scope.PLATFORM or self.operation.scope is Scope.AGENT:
            return Sight(PLATFORM, actor)
        return Sight(cx.org_id_or_none, actor)

    async def _decode(self, request: Request, arguments: dict[str, Any]) -> bytes:
        op = self.operation
        if not op.speaks_json:
            return await self._decode_exchange(request, arguments)
        if self._query is not None:
            arguments["query"] = self._query.read(request.query())
        elif request.query_string:
            raise invalid("This operation takes no query.", next(iter(request.query()), ""), "unknown")
        if self._decoder is None:
            if op.mutates and await request.body(op.body_limit):
                raise invalid("This operation takes no body.", "", "unexpected body")
            return b""
        body = await request.body(op.body_limit)
        request.require_content_type(JSON)
        arguments[self._body_name] = decode_json(self._decoder, body)
        return body

    async def _decode_exchange(self, request: Request, arguments: dict[str, Any]) -> bytes:
        op, body = self.operation, b""
        if op.mutates:
            body = await request.body(op.body_limit)
            request.require_content_type(b"application/x-www-form-urlencoded")
        arguments[self._body_name] = Exchange(request.query(), pairs(body, "form"), _cookies(request))
        return body

    async def _read(self, cx: Context, request: Request, arguments: dict[str, Any]) -> Answer | Stream:
        op = self.operation
        if self._query is not None:
            cx.question = _question(op, cx, arguments)
        if not op.transaction:
            return self._answer(await op.handler(cx, **arguments))
        async with self._edge.db.read(self._sight(cx)) as tx:
            cx.tx = tx
            return self._answer(await op.handler(cx, **arguments))

    async def _change(self, cx: Context, request: Request, arguments: dict[str, Any], body: bytes) -> Answer | Stream:
        op = self.operation
        if not op.transaction:
            return self._answer(await op.handler(cx, **arguments))
        key = self._key_of(cx, _idempotency_key(request)) if op.idempotent_by_key else ""
        digest = self._digest(request, body)
        if op.prepare is None or not key:
            return await self._try_change(cx, key, digest, arguments)
        async with self._edge.turns.take((cx.actor.id, key)):
            return await self._try_change(cx, key, digest, arguments)

    async def _try_change(self, cx: Context, key: str, digest: bytes, arguments: dict[str, Any]) -> Answer | Stream:
        op = self.operation
        for remaining in range(TRIES - 1, -1, -1):
            try:
                if op.prepare is not None:
                    stored = await self._stored(cx, key) if key else None
                    if stored is not None:
                        return _replay(stored, digest)
                    cx.prepared = await op.prepare(cx, **arguments)
                async with self._edge.db.unfinished(self._sight(cx), _actor_name(cx.actor)) as tx:
                    return await self._once(cx, tx, key, digest, arguments)
            except AGAIN:
                if remaining == 0:
                    raise
            except asyncpg.LockNotAvailableError as error:
                raise Conflict(
                    Code.REQUEST_IN_PROGRESS,
                    "The same request, or another on the same thing, is being worked on.",
                    retry_after=1,
                ) from error
        raise AssertionError("unreachable")

    async def _stored(self, cx: Context, key: str) -> Row | None:
        async with self._edge.db.read(self._sight(cx)) as tx:
            return await tx.row(STORED, cx.actor.id or NIL, key)

    def _key_of(self, cx: Context, given: str) -> str:
        """The key as it is stored: keys belong to an actor. Those who are nobody yet are told apart by address, so that
        a key somebody else thought of too never gives his answer."""
        if cx.actor.id is not None:
            return given
        mixed = b"\0".join((b"anonymous", cx.client_ip.encode(), given.encode()))
        return "anonymous:" + hashlib.blake2b(mixed, key=self._edge.request_key, digest_size=32).hexdigest()

    def _digest(self, request: Request, body: bytes) -> bytes:
        """What a repeated request is compared with. Keyed: a body may hold a password, which must not be guessable
        from what is stored."""
        parts = (self.operation.id.encode(), request.path.encode(), request.query_string, body)
        return hashlib.blake2b(b"\0".join(parts), key=self._edge.request_key, digest_size=32).digest()

    async def _once(self, cx: Context, tx: Tx, key: str, digest: bytes, arguments: dict[str, Any]) -> Answer | Stream:
        """Inside the transaction: claim the key, do it, write what commits with it."""
        op, actor_id = self.operation, cx.actor.id or NIL
        cx.tx = tx
        if key and await tx.value(CLAIM, actor_id, key, op.id, digest) is None:
            stored = await tx.row(STORED, actor_id, key)
            if stored is None:
                raise Conflict(Code.REQUEST_IN_PROGRESS, "The same request is being worked on.", retry_after=1)
            return _replay(stored, digest)
        cx.subject_id, cx.audit_details = None, {}
        result = await op.handler(cx, **arguments)
        answer = self._answer(result)
        if isinstance(answer, Stream):
            raise TypeError(f"{op.id}: a change cannot answer with a stream")
        stored_answer = StoredAnswer(actor_id, key, answer.status, self._storable(result, answer)) if key else None
        silent = cx.unaudited or op.audit is None
        await finish(tx, None if silent else self._audit(cx, arguments, result, answer.status), stored_answer)
        return answer

    def _storable(self, result: Any, answer: Answer) -> bytes:
        if not self._one_time:
            return answer.body
        hidden: dict[str, Any] = dict.fromkeys(self._one_time, None)
        return _ENCODER.encode(msgspec.structs.replace(result, already_shown=True, **hidden))

    def _answer(self, result: Any) -> Answer | Stream:
        if type(result) is Stream:
            return result
        if type(result) is Raw:
            headers = tuple((name.encode(), value.encode()) for name, value in result.headers)
            return Answer(result.status, result.body, result.content_type.encode(), headers)
        return Answer(self.operation.status, _ENCODER.encode(result))

    def _audit(self, cx: Context, arguments: dict[str, Any], result: Any, status: int) -> AuditEntry:
        op, actor = self.operation, cx.actor
        details = {name: value for name, value in arguments.items() if not isinstance(value, Exchange)}
        subject = cx.subject_id or getattr(result, "id", None)
        if not isinstance(subject, UUID):
            subject = next((v for v in reversed(list(arguments.values())) if isinstance(v, UUID)), None)
        return AuditEntry(
            id=new_id(),
            action=op.audit or "",
            operation=op.id,
            actor_kind=actor.kind,
            actor_id=actor.id,
            actor_name=actor.email or actor.name,
            org_id=_org_of(cx),
            project_id=cx.project_id_or_none,
            subject_id=subject,
            correlation_id=cx.correlation_id,
            client_ip=cx.client_ip,
            details=_ENCODER.encode(log.scrub({**details, **cx.audit_details, "status": status})).decode(),
        )


def _org_of(cx: Context) -> UUID | None:
    seen = cx.tx.sight.org
    return seen if isinstance(seen, UUID) else cx.org_id_or_none


def _body_name(op: Operation) -> str:
    return next((n for n in _parameters(op) if n not in op.path_params and n != "query"), "")


def _parameters(op: Operation) -> list[str]:
    code = op.handler.__code__
    return list(code.co_varnames[1 : code.co_argcount])


def _path_arguments(op: Operation, values: list[str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for (name, kind), value in zip(op.path_params.items(), values, strict=True):
        try:
            arguments[name] = msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError as error:
            raise invalid(f"{name} in the path is not well-formed.", name, in_words(error)) from error
    return arguments


def _question(op: Operation, cx: Context, arguments: dict[str, Any]) -> str:
    """What a list was asked: its cursors answer that and nothing else."""
    query = arguments.get("query")
    if query is None or not hasattr(query, "cursor"):
        return ""
    filters = msgspec.structs.replace(query, cursor=None, limit=1)
    return f"{op.id}|{cx.org_id_or_none}|{cx.project_id_or_none}|{cx.actor.id}|{filters!r}"


def _actor_name(actor: Actor) -> str:
    return f"{actor.kind}:{actor.subject}"


def _idempotency_key(request: Request) -> str:
    given = request.headers.get(b"idempotency-key")
    if given is None:
        raise Invalid(Code.IDEMPOTENCY_KEY_REQUIRED, "A change needs an Idempotency-Key header; a random UUID does.")
    if not _KEY.match(given):
        raise Invalid(Code.IDEMPOTENCY_KEY_INVALID, "An Idempotency-Key is 1 to 200 visible ASCII characters.")
    return given.decode()


def _replay(stored: Row, digest: bytes) -> Answer:
    if stored["request_hash"] != digest:
        raise Refused(Code.IDEMPOTENCY_KEY_REUSED, "This Idempotency-Key was used with another request. Use a new one.")
    return Answer(stored["status"], stored["body"], headers=((b"idempotency-replayed", b"true"),))


def _cookies(request: Request) -> dict[str, str]:
    raw = request.headers.get(b"cookie", b"").decode("latin-1")
    return dict(part.strip().partition("=")[::2] for part in raw.split(";") if "=" in part)
