"""The contract, printed from the register: OpenAPI 3.1, exact. What it does not say, the API does not do."""

import typing
from collections import defaultdict
from http import HTTPStatus
from typing import Any

import msgspec

import gpuaas
from gpuaas.contracts.error_codes import CATALOGUE, Code
from gpuaas.contracts.http.base import ErrorResponse
from gpuaas.infra.http.context import Scope
from gpuaas.infra.http.field_docs import describe_fields
from gpuaas.infra.http.operation import Operation, Registry, Stream

REF = "#/components/schemas/{name}"
REFUSAL_REF = "#/components/responses/{name}"
_ALWAYS = (
    Code.REQUEST_MALFORMED,
    Code.REQUEST_INVALID,
    Code.RATE_LIMITED,
    Code.INTERNAL,
    Code.OVERLOADED,
    Code.DEPENDENCY_UNAVAILABLE,
)
_WITH_CREDENTIAL = (
    Code.CREDENTIAL_MISSING,
    Code.CREDENTIAL_INVALID,
    Code.CREDENTIAL_EXPIRED,
    Code.CREDENTIAL_REVOKED,
    Code.PERMISSION_DENIED,
    Code.OPERATION_NOT_IN_ALLOW_LIST,
    Code.ACCOUNT_DISABLED,
)
_WITH_CHANGE = (
    Code.IDEMPOTENCY_KEY_REQUIRED,
    Code.IDEMPOTENCY_KEY_INVALID,
    Code.IDEMPOTENCY_KEY_REUSED,
    Code.REQUEST_IN_PROGRESS,
    Code.REQUEST_MALFORMED,
    Code.BODY_TOO_LARGE,
    Code.BODY_TIMEOUT,
    Code.CONTENT_ENCODING_UNSUPPORTED,
)
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "Names this change. Sent again, the same answer comes back and nothing happens twice.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]{1,200}$"},
}
BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "An access token of the issuer, or a service-account key.",
}
CERTIFICATE = {"type": "mutualTLS", "description": "The node's certificate, of our own authority."}
CORRELATION = {
    "description": "Names this request in logs, audit and events.",
    "schema": {"type": "string"},
}
_HEADERS = {"X-Correlation-Id": {"$ref": "#/components/headers/Correlation"}}


def error_codes(op: Operation) -> list[Code]:
    """Every code the operation may answer with, from what it declares."""
    codes: list[Code] = [*_ALWAYS]
    if op.query is not None and "cursor" in op.query.__struct_fields__:
        codes.append(Code.CURSOR_REFUSED)
    if op.scope is not Scope.PUBLIC:
        codes += _WITH_CREDENTIAL
    if op.scope is Scope.ORG:
        codes.append(Code.ORG_MISSING)
    if op.scope is Scope.PROJECT:
        codes.append(Code.PROJECT_MISSING)
    if op.mutates:
        codes += _WITH_CHANGE
        if op.body is not None:
            codes.append(Code.CONTENT_TYPE_UNSUPPORTED)
    return list(dict.fromkeys([*codes, *(Code(code) for code in op.errors)]))


def document(registry: Registry, *, agents: bool = False) -> dict[str, Any]:
    """The whole contract as a JSON object, in a stable order: people's, or that of the agents' listener."""
    operations = sorted(registry.agent() if agents else registry.json(), key=lambda op: (op.full_path, op.method))
    kinds = _kinds(operations)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REF)
    describe_fields(components)
    schema_of = dict(zip(map(_key, kinds), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for op in operations:
        paths[op.full_path][op.method.lower()] = _operation(op, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "GPUaaS agents' API" if agents else "GPUaaS API",
            "version": gpuaas.__version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "The control plane that turns a rack of GPU servers into a cloud. Every change takes an "
            "Idempotency-Key; every error has the shape of ErrorResponse. No text may contain NUL.",
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in sorted({op.tag for op in operations})],
        "security": [{"certificate": []}] if agents else [{"bearer": []}],
        "paths": dict(paths),
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"certificate": CERTIFICATE} if agents else {"bearer": BEARER},
            "headers": {"Correlation": CORRELATION},
            "responses": _shared_refusals(operations),
        },
    }


def _kinds(operations: list[Operation]) -> list[Any]:
    kinds: list[Any] = [ErrorResponse]
    for op in operations:
        kinds += [op.body] if op.body else []
        kinds += [op.answer] if not _streams(op) else []
    return list({_key(kind): kind for kind in kinds}.values())


def _key(kind: Any) -> str:
    return str(kind)


def _streams(op: Operation) -> bool:
    return op.answer is Stream


def _operation(op: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": op.id,
        "summary": op.summary,
        "tags": [op.tag],
        "parameters": _parameters(op),
        "responses": _responses(op, schema_of),
        "x-permission": op.permission or "none",
        "x-scope": op.scope,
        "x-rate-lane": op.lane,
    }
    if op.description:
        told["description"] = op.description
    if op.audit:
        told["x-audit-action"] = op.audit
    if op.scope is Scope.PUBLIC:
        told["security"] = []
    if op.body is not None:
        told["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema_of[_key(op.body)]}},
        }
    return told


def _parameters(op: Operation) -> list[dict[str, Any]]:
    found = [
        {"name": name, "in": "path", "required": True, "schema": _inlined_schema(kind)}
        for name, kind in op.path_params.items()
    ]
    if op.query is not None:
        hints = typing.get_type_hints(op.query, include_extras=True)
        for field in msgspec.structs.fields(op.query):
            schema = _without_null(_inlined_schema(hints[field.name]))
            description = schema.pop("description", "")
            if field.default is not msgspec.NODEFAULT and field.default is not None:
                schema["default"] = msgspec.to_builtins(field.default)
            parameter = {"name": field.encode_name, "in": "query", "required": field.required, "schema": schema}
            found.append(parameter | ({"description": description} if description else {}))
    if op.idempotent_by_key:
        found.append(IDEMPOTENCY_KEY)
    return found


def _inlined_schema(kind: Any) -> dict[str, Any]:
    """The schema of a parameter, whole in itself: a type with a name (an enum) stands where it is used."""
    schema = msgspec.json.schema(kind)
    named: dict[str, Any] = schema.pop("$defs", {})

    def inlined(part: Any) -> Any:
        if isinstance(part, list):
            return [inlined(item) for item in part]
        if not isinstance(part, dict):
            return part
        whole = {key: inlined(value) for key, value in part.items() if key != "$ref"}
        return inlined(named[part["$ref"].rpartition("/")[2]]) | whole if "$ref" in part else whole

    found: dict[str, Any] = inlined(schema)
    return found


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query parameter that may be left out is not one that may be null."""
    branches = [branch for branch in schema.get("anyOf", []) if branch != {"type": "null"}]
    if len(branches) == 1:
        return {**{key: value for key, value in schema.items() if key != "anyOf"}, **branches[0]}
    return schema


# OpenAPI 3.1 has the schema of a stream of events describe each of them.
EVENT: dict[str, Any] = {
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["event", "data"],
}


def _responses(op: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any]
    if _streams(op):
        content = {op.produces: {"schema": EVENT if op.produces == "text/event-stream" else {"type": "string"}}}
    else:
        content = {"application/json": {"schema": schema_of[_key(op.answer)]}}
    good_headers: dict[str, Any] = dict(_HEADERS)
    if op.idempotent_by_key:
        good_headers["Idempotency-Replayed"] = {
            "description": "'true' when the answer was given before.",
            "schema": {"type": "string", "const": "true"},
        }
    told: dict[str, Any] = {
        str(op.status): {"description": HTTPStatus(op.status).phrase, "headers": good_headers, "content": content}
    }
    refs = {str(refusal.status): {"$ref": REFUSAL_REF.format(name=refusal.name)} for refusal in _refusals(op)}
    return told | refs


class _Refusal(msgspec.Struct, frozen=True):
    """One status an operation refuses with, for these reasons."""

    status: int
    codes: tuple[Code, ...]

    @property
    def name(self) -> str:
        """Says what it holds, so that it stays the same while operations come and go."""
        return ".".join((str(self.status), *self.codes))

    def told(self) -> dict[str, Any]:
        retry = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}}
        code = {"type": "object", "properties": {"code": {"enum": [str(code) for code in self.codes]}}}
        schema = {
            "allOf": [
                {"$ref": REF.format(name="ErrorResponse")},
                {"type": "object", "properties": {"error": code}},
            ]
        }
        return {
            "description": " ".join(f"`{code}`: {CATALOGUE[code][1]}" for code in self.codes),
            "headers": _HEADERS | (retry if self.status in {429, 503} else {}),
            "content": {"application/json": {"schema": schema}},
        }


def _refusals(op: Operation) -> list[_Refusal]:
    by_status: dict[int, list[Code]] = defaultdict(list)
    for code in error_codes(op):
        by_status[CATALOGUE[code][0].status].append(code)
    return [_Refusal(status, tuple(codes)) for status, codes in sorted(by_status.items())]


def _shared_refusals(operations: list[Operation]) -> dict[str, Any]:
    """Most operations are refused for the same reasons: each set of them is told once."""
    found = {refusal.name: refusal for op in operations for refusal in _refusals(op)}
    return {name: found[name].told() for name in sorted(found)}
