"""The declaration of an operation. What it must say, it cannot be declared without: permission, lane, limits, and for a
change its audit action. Routes, pipeline, contract, permission matrix and docs all come from this register."""

import inspect
import re
import typing
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import StrEnum
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import OneTime, Page, PageQuery, Query, Request, ShownOnce
from gpuaas.contracts.permissions import OF_ONESELF, PLATFORM_ONLY, Permission
from gpuaas.infra.http.context import Context, Scope

BODY_LIMIT = 64 * 1024
Handler = Callable[..., Awaitable[Any]]
H = TypeVar("H", bound=Handler)


class Lane(StrEnum):
    DEFAULT = "default"
    FINANCIAL = "financial"
    ADMIN = "admin"
    TERMINAL = "terminal"
    AUTH = "auth"
    ENROLMENT = "enrolment"
    """Of machines with single-use tokens: a rack of them at once. Whoever is refused spends the auth lane, too, and
    finds this one closed while that is."""


STRICT_LANES = frozenset(Lane) - {Lane.DEFAULT}


class Wire(StrEnum):
    """How an operation speaks. JSON is the API. AGENT is JSON on the agents' own listener, where each message is
    repeatable by what it names (a task, a batch), so it takes no key. The others are the built-in issuer's, whose
    shapes are RFCs'."""

    JSON = "json"
    AGENT = "agent"
    OAUTH = "oauth"
    PAGE = "page"


class Raw(msgspec.Struct, frozen=True):
    """An answer whose bytes the handler chose: redirects, pages, OAuth answers, exports."""

    body: bytes
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


class Stream(msgspec.Struct, frozen=True):
    """An answer too large to hold: its chunks are sent as they come. It reads through `cx.db`, not through `cx.tx`."""

    chunks: AsyncIterator[bytes]
    content_type: str
    filename: str


class Exchange(msgspec.Struct, frozen=True):
    """What came in, for operations of the built-in issuer, whose shapes are RFCs'."""

    query: dict[str, str]
    form: dict[str, str]
    cookies: dict[str, str]


class DeclarationError(TypeError):
    """An operation that says too little or contradicts itself. The service does not start with one."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    method: str
    path: str
    handler: Handler
    context: type[Context]
    permission: Permission | None
    lane: Lane
    audit: str | None
    status: int
    wire: Wire
    body: Any
    query: type[Query] | None
    path_params: dict[str, Any]
    answer: Any
    prepare: Handler | None
    transaction: bool
    body_limit: int
    produces: str
    errors: tuple[str, ...]
    summary: str
    description: str
    tag: str

    @property
    def scope(self) -> Scope:
        return self.context.scope

    @property
    def mutates(self) -> bool:
        return self.method != "GET"

    @property
    def idempotent_by_key(self) -> bool:
        return self.mutates and self.wire is Wire.JSON

    @property
    def full_path(self) -> str:
        return {Wire.JSON: "/api/v1", Wire.AGENT: "/agent/v1"}.get(self.wire, "") + self.path

    @property
    def speaks_json(self) -> bool:
        return self.wire is Wire.JSON or self.wire is Wire.AGENT

    @property
    def one_time_fields(self) -> tuple[str, ...]:
        return one_time_fields(self.answer)


class Registry:
    """All operations that were declared, by id."""

    def __init__(self) -> None:
        self._operations: dict[str, Operation] = {}

    def add(self, operation: Operation) -> None:
        if operation.id in self._operations:
            raise DeclarationError(f"operation {operation.id} is declared twice")
        taken = {(o.method, _shape(o.full_path)) for o in self._operations.values()}
        if (operation.method, _shape(operation.full_path)) in taken:
            raise DeclarationError(f"{operation.id}: {operation.method} {operation.full_path} is taken")
        self._operations[operation.id] = operation

    def all(self) -> list[Operation]:
        return list(self._operations.values())

    def agent(self) -> list[Operation]:
        return [operation for operation in self.all() if operation.wire is Wire.AGENT]

    def json(self) -> list[Operation]:
        return [operation for operation in self.all() if operation.wire is Wire.JSON]

    def get(self, operation_id: str) -> Operation:
        return self._operations[operation_id]

    def ids(self) -> frozenset[str]:
        return frozenset(self._operations)


REGISTRY = Registry()


def operation(
    method: str,
    path: str,
    *,
    permission: Permission | None = None,
    lane: Lane | None = None,
    audit: str | None = None,
    status: int = 200,
    wire: Wire = Wire.JSON,
    prepare: Handler | None = None,
    transaction: bool = True,
    body_limit: int = BODY_LIMIT,
    produces: str = "",
    errors: tuple[str, ...] = (),
    tag: str = "",
    registry: Registry = REGISTRY,
) -> Callable[[H], H]:
    """Declare an operation. `prepare(cx, …)` runs before the transaction, for what needs the network; its answer is
    `cx.prepared`. `produces` is the media type of a stream. `errors` are the codes it adds to those every operation of
    its kind can answer with."""

    def declare(handler: H) -> H:
        hints = typing.get_type_hints(handler, include_extras=True)
        names = list(inspect.signature(handler).parameters)
        context = hints.get(names[0]) if names else None
        if not (isinstance(context, type) and issubclass(context, Context) and hasattr(context, "scope")):
            raise DeclarationError(f"{handler.__name__}: the first parameter's type must be a Context with a scope")
        in_path = re.findall(r"\{(\w+)\}", path)
        body = next((hints[n] for n in names[1:] if n not in in_path and n != "query"), None)
        doc = inspect.getdoc(handler) or ""
        declared = Operation(
            id=handler.__name__,
            method=method,
            path=path,
            handler=handler,
            context=context,
            permission=permission,
            lane=lane or Lane.DEFAULT,
            audit=audit,
            status=status,
            wire=wire,
            body=body,
            query=hints.get("query"),
            path_params={name: hints.get(name, UUID) for name in in_path},
            answer=hints.get("return"),
            prepare=prepare,
            transaction=transaction,
            body_limit=body_limit,
            produces=produces,
            errors=errors,
            summary=doc.partition("\n")[0],
            description=doc.partition("\n")[2].strip(),
            tag=tag or handler.__module__.rpartition(".")[0].rpartition(".")[2],
        )
        _check(declared, lane_said=lane is not None)
        registry.add(declared)
        return handler

    return declare


def one_time_fields(answer: Any) -> tuple[str, ...]:
    """The fields of an answer that carry a secret shown once."""
    if not (isinstance(answer, type) and issubclass(answer, msgspec.Struct)):
        return ()
    hints = typing.get_type_hints(answer, include_extras=True)
    return tuple(field for field, hint in hints.items() if hint == OneTime)


_PUBLIC_LANES = frozenset({Lane.AUTH, Lane.ENROLMENT})
_NO_ROLES = frozenset({Scope.PUBLIC, Scope.AGENT})


def _shape(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def _check(op: Operation, *, lane_said: bool) -> None:
    """Refuse what is not fully said. Each line here is a rule no review has to remember."""
    checks: list[tuple[bool, str]] = [
        (op.method in {"GET", "POST", "PUT", "PATCH", "DELETE"}, f"method {op.method} is not one we use"),
        (lane_said, "no rate lane"),
        (op.permission is not None or op.scope in _NO_ROLES, "no permission"),
        (op.permission is None or op.scope not in _NO_ROLES, "neither the public nor a node holds a permission"),
        (not op.mutates or bool(op.audit) or op.wire is Wire.AGENT, "it changes something and names no audit action"),
        ((op.scope is Scope.AGENT) == (op.wire is Wire.AGENT), "nodes speak on their own listener, and nobody else"),
        (op.mutates or not op.audit, "it reads and names an audit action"),
        ((op.scope is Scope.USER) == (op.permission in OF_ONESELF), "'self' and 'whoami' are the user scope's"),
        (op.permission not in PLATFORM_ONLY or op.scope is Scope.PLATFORM, "its permission is the platform's alone"),
        (op.scope is not Scope.ORG or "org_id" in op.path_params, "an organisation's operation names {org_id}"),
        (op.scope is not Scope.PROJECT or "project_id" in op.path_params, "a project's operation names {project_id}"),
        (bool(op.summary), "no docstring: it is the contract's summary"),
        (op.answer is not None, "no return type"),
        ((op.answer is Stream) == bool(op.produces), "a stream says what it produces, and nothing else does"),
        (op.method != "GET" or op.body in (None, Exchange), "a GET takes no body"),
        (
            op.scope is not Scope.PUBLIC or not op.mutates or op.lane in _PUBLIC_LANES,
            "a public change uses the auth lane",
        ),
        (
            op.scope is not Scope.PLATFORM or not op.mutates or op.lane in STRICT_LANES,
            "a platform change uses a strict lane",
        ),
        (not op.mutates or op.transaction or op.wire is Wire.AGENT, "a change has a transaction"),
    ]
    if op.speaks_json:
        checks += [
            (op.body is None or _is_struct(op.body, Request), "its body must derive from Request"),
            (op.query is None or _is_struct(op.query, Query), "its query must derive from Query"),
            (
                not op.one_time_fields or _is_struct(op.answer, ShownOnce),
                "an answer with a one-time field is ShownOnce",
            ),
            (typing.get_origin(op.answer) is not Page or _is_struct(op.query, PageQuery), "a page takes a PageQuery"),
            *((problem == "", problem) for kind in (op.body, op.query) for problem in _unbounded(kind)),
        ]
    for holds, problem in checks:
        if not holds:
            raise DeclarationError(f"operation {op.id} ({op.method} {op.path}): {problem}")


def _is_struct(kind: Any, base: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, base)


def _unbounded(kind: Any) -> list[str]:
    """Text and lists from outside without a limit, anywhere in a type."""
    if not _is_struct(kind, msgspec.Struct):
        return []
    return [
        f"{kind.__name__}.{field.encode_name} has no limit on its length"
        for field in msgspec.structs.fields(kind)
        if _has_no_limit(msgspec.inspect.type_info(field.type))
    ]


def _has_no_limit(info: Any) -> bool:
    if isinstance(info, msgspec.inspect.Metadata):
        return _has_no_limit(info.type)
    if isinstance(info, msgspec.inspect.UnionType):
        return any(_has_no_limit(member) for member in info.types)
    if isinstance(info, msgspec.inspect.StrType):
        return info.max_length is None
    if isinstance(info, msgspec.inspect.ListType | msgspec.inspect.SetType | msgspec.inspect.FrozenSetType):
        return info.max_length is None or _has_no_limit(info.item_type)
    return False
