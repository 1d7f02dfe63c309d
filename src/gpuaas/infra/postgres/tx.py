"""A transaction as domains see it: SQL, events that commit with it, and the organisation it works for.

Always holds: nobody outside this package commits; an event queued here is in the outbox if and only if the change is;
row-level security lets the transaction see only the organisation (or actor) it was opened for."""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
import msgspec

from gpuaas.contracts.error_codes import CATALOGUE, Code
from gpuaas.contracts.events.base import Event
from gpuaas.kit import log, trace
from gpuaas.kit.ids import EventId, new_id

PLATFORM = "*"
NIL = UUID(int=0)

T = TypeVar("T")
Row = asyncpg.Record
Hook = Callable[[], None]


class Sight(msgspec.Struct, frozen=True):
    """What a connection may see: one organisation, everything (PLATFORM), or nothing (None); and one actor's own."""

    org: UUID | str | None = None
    actor: UUID | None = None

    def assignments(self, verb: str) -> str:
        """As SQL. SET takes no parameters, so only ids and the platform's mark are let through."""
        if not (self.org is None or self.org == PLATFORM or isinstance(self.org, UUID)):
            raise ValueError("a sight is an organisation id or the platform")
        if not (self.actor is None or isinstance(self.actor, UUID)):
            raise ValueError("an actor is an id")
        return f"{verb} app.org_id = '{self.org or ''}'; {verb} app.actor_id = '{self.actor or ''}'"


class QueuedEvent(msgspec.Struct, frozen=True):
    id: EventId
    event: Event
    org_id: UUID | None
    subject_id: UUID | None


class Tx:
    """What a verb works with. Made by `Database`, never by a domain."""

    __slots__ = ("_connection", "_seconds", "actor_name", "early", "events", "hints", "hooks", "sight")

    def __init__(self, connection: Any, sight: Sight, actor_name: str) -> None:
        self._connection = connection
        self._seconds: float | None = None
        self.sight = sight
        self.actor_name = actor_name
        self.events: list[QueuedEvent] = []
        self.hooks: list[Hook] = []
        self.hints: set[str] = set()
        self.early = False

    async def row(self, sql: str, *args: Any) -> Row | None:
        found: Row | None = await self._connection.fetchrow(sql, *args, timeout=self._seconds)
        return found

    async def rows(self, sql: str, *args: Any) -> list[Row]:
        found: list[Row] = await self._connection.fetch(sql, *args, timeout=self._seconds)
        return found

    async def value(self, sql: str, *args: Any) -> Any:
        return await self._connection.fetchval(sql, *args, timeout=self._seconds)

    async def run(self, sql: str, *args: Any) -> int:
        """How many rows the statement touched."""
        status: str = await self._connection.execute(sql, *args, timeout=self._seconds)
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    def let_go_early(self) -> None:
        """Give the locks back before the commit is on disk: for what many wait for, as a hot account. Who opened the
        transaction still hears that it is done only when it is on disk, and who went on from what it wrote commits
        behind it in the log. Only who merely reads may see, for a moment, what a crash takes back."""
        self.early = True

    async def be_patient(self, seconds: int) -> None:
        """Let each statement of this transaction take so long, at the server and here: for checks of everything."""
        await self.value("SELECT set_config('statement_timeout', $1, true)", f"{seconds}s")
        self._seconds = seconds + 5.0

    def emit(self, event: Event, *, subject_id: UUID | None = None, org_id: UUID | None = None) -> EventId:
        """Tell of the change, in the same commit. The organisation is the transaction's, unless said otherwise."""
        if org_id is None and isinstance(self.sight.org, UUID):
            org_id = self.sight.org
        queued = QueuedEvent(EventId(new_id()), event, org_id, subject_id)
        self.events.append(queued)
        return queued.id

    def after_commit(self, hook: Hook) -> None:
        """Run when the change is durable: for what lives in this process only, like a cache."""
        self.hooks.append(hook)

    def hint(self, subject: str) -> None:
        """Say 'look now' to other programs once the change is durable. It may be lost: they look by themselves too."""
        self.hints.add(subject)

    async def enter_org(self, org_id: UUID) -> None:
        """Work for this organisation from here on: for verbs that create or find one."""
        await self._look(Sight(org_id, self.sight.actor))

    async def enter_platform(self) -> None:
        """See across organisations from here on: for verbs that look up which organisation is meant."""
        await self._look(Sight(PLATFORM, self.sight.actor))

    async def act_as(self, actor: UUID) -> None:
        """See what is this actor's own from here on: for the login that creates him."""
        await self._look(Sight(self.sight.org, actor))

    async def _look(self, sight: Sight) -> None:
        await self._connection.execute(sight.assignments("SET LOCAL"))
        self.sight = sight


def outbox_columns(tx: Tx) -> tuple[list[Any], ...]:
    """The queued events, column by column, as the finishing statement takes them."""
    correlation, parent = log.correlation_id.get(), trace.traceparent()
    rows = [
        (
            q.id,
            q.event.STREAM.value,
            q.event.NAME,
            q.event.VERSION,
            q.org_id,
            q.subject_id,
            tx.actor_name,
            correlation,
            parent,
            msgspec.json.encode(q.event).decode(),
        )
        for q in tx.events
    ]
    return tuple(map(list, zip(*rows, strict=True))) if rows else tuple([] for _ in range(10))


def decode(model: type[T], row: Row) -> T:
    """A row as its model; a column the model does not know, or of another type, is our mistake and fails."""
    if _is_native(model):
        return model(**row)
    return msgspec.convert(dict(row), model, strict=False, builtin_types=_BUILTIN)


def decode_all(model: type[T], rows: list[Row]) -> list[T]:
    """Rows as their models: for lists. Columns in the model's own order are five times as fast."""
    if not rows or not _is_native(model):
        return [msgspec.convert(dict(row), model, strict=False, builtin_types=_BUILTIN) for row in rows]
    if tuple(rows[0].keys()) == _positions(model):
        return [model(*row) for row in rows]
    return [model(**row) for row in rows]


_NATIVE: dict[type, bool] = {}
_POSITIONS: dict[type, tuple[str, ...]] = {}


def _positions(model: type[T]) -> tuple[str, ...]:
    """The fields that may be given by position, in order."""
    known = _POSITIONS.get(model)
    if known is None:
        parameters = inspect.signature(model).parameters.values()
        known = _POSITIONS[model] = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
    return known


def _is_native(model: type[T]) -> bool:
    """Whether the driver already gives every field in its type, so that there is nothing to convert."""
    known = _NATIVE.get(model)
    if known is None:
        fields = msgspec.structs.fields(model)  # type: ignore[arg-type] # every model is a Struct
        known = _NATIVE[model] = all(_comes_ready(msgspec.inspect.type_info(field.type)) for field in fields)
    return known


def _comes_ready(info: Any) -> bool:
    if isinstance(info, msgspec.inspect.UnionType):
        return all(_comes_ready(member) for member in info.types)
    return isinstance(info, _READY)


_READY = (
    msgspec.inspect.StrType,
    msgspec.inspect.IntType,
    msgspec.inspect.BoolType,
    msgspec.inspect.BytesType,
    msgspec.inspect.DateTimeType,
    msgspec.inspect.UUIDType,
    msgspec.inspect.NoneType,
)
_BUILTIN = (bytes, UUID)


@contextmanager
def conflicts(codes: Mapping[str, Code]) -> Iterator[None]:
    """Say a violated constraint in the catalogue's words: `conflicts({"orgs_name_key": Code.ORG_NAME_TAKEN})`."""
    try:
        yield
    except asyncpg.IntegrityConstraintViolationError as error:
        code = codes.get(error.constraint_name or "")
        if code is None:
            raise
        kind, sentence = CATALOGUE[code]
        raise kind(code, sentence) from error


Effect = Callable[[Tx], Awaitable[T]]
