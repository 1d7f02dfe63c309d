"""Requests made from declarations and examples, and what the declaration says must come of them."""

import re
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from gpuaas.contracts.actor import ActorKind
from gpuaas.contracts.error_codes import CATALOGUE, Code
from gpuaas.contracts.http.base import ErrorResponse
from gpuaas.contracts.permissions import PLATFORM_GRANTS, ROLE_GRANTS, Permission
from gpuaas.domains import load_routes
from gpuaas.infra.http.app import UNDECLARED
from gpuaas.infra.http.context import Scope
from gpuaas.infra.http.operation import REGISTRY, Operation
from gpuaas.kit.ids import new_id
from gpuaas.kit.secrets import MasterKey
from tests.every.examples import EXAMPLES, Example, Stage
from tests.every.world import Caller, Setting, make_caller, make_setting
from tests.support.live import LiveApi

load_routes()
OPERATIONS = sorted(REGISTRY.json(), key=lambda op: op.id)
MUTATIONS = [op for op in OPERATIONS if op.mutates]
Expected = tuple[int, Code | None]


class Refusal(msgspec.Struct, forbid_unknown_fields=True):
    """The catalogue's shape, to the letter."""

    class Body(msgspec.Struct, forbid_unknown_fields=True):
        class Detail(msgspec.Struct, forbid_unknown_fields=True):
            field: str
            reason: str

        code: str
        message: str
        correlation_id: str
        details: list[Detail]

    error: Body


@dataclass(frozen=True)
class Ask:
    """One request, ready to be sent as often as wanted."""

    op: Operation
    setting: Setting
    caller: Caller
    example: Example

    @property
    def path(self) -> str:
        known = {"org_id": self.setting.org_id, "project_id": self.setting.project_id} | self.example.path
        return re.sub(r"\{(\w+)\}", lambda found: quote(str(known[found[1]]), safe=""), self.op.full_path)

    def request(self, key: str | None = None, **headers: str) -> dict[str, Any]:
        said = dict(self.caller.headers)
        if self.example.credential:
            said = {"Authorization": f"Bearer {self.example.credential}"}
        if self.op.mutates and key != "":
            said["Idempotency-Key"] = key or new_id().hex
        content = None
        if self.example.body is not None:
            said["Content-Type"] = "application/json"
            content = msgspec.json.encode(self.example.body)
        return {
            "method": self.op.method,
            "url": self.path,
            "params": self.example.query or None,
            "headers": said | headers,
            "content": content,
        }

    def but(self, **changed: Any) -> "Ask":
        """The same with another body, query, path or credential."""
        return replace(self, example=replace(self.example, **changed))


class Asking:
    def __init__(self, live: LiveApi, sql: Any) -> None:
        self.live = live
        self.sql = sql
        self.master = MasterKey.from_text(live.settings.master_key)

    async def setting(self) -> Setting:
        return await make_setting(self.sql, self.live.settings.realm)

    async def ask(self, op: Operation, actor: str, setting: Setting | None = None) -> Ask:
        """The example of an operation, by this actor, in a setting of its own unless one is given."""
        s = setting or await self.setting()
        caller = await make_caller(s, actor, self.live.token_for, op.id)
        stage = Stage(s, caller, self.master, self.live.settings.issuer, self.live.token_for)
        return Ask(op, s, caller, await EXAMPLES[op.id](stage))

    async def send(self, ask: Ask, key: str | None = None, **headers: str) -> httpx.Response:
        return await self.live.client.request(**ask.request(key, **headers))


def undeclared() -> list[tuple[dict[str, str], float]]:
    """Errors that left an application of this process without being declared."""
    samples = [sample for metric in UNDECLARED.collect() for sample in metric.samples if sample.value]
    return [(sample.labels, sample.value) for sample in samples if sample.name.endswith("_total")]


def best_actor(op: Operation) -> str:
    """Somebody who may."""
    return {Scope.PUBLIC: "anonymous", Scope.PLATFORM: "platform_admin"}.get(op.scope, "owner")


def expected(op: Operation, caller: Caller, example: Example) -> Expected:
    """What the declaration and the permission tables say, worked out without the pipeline."""
    refusal = _refusal(op, caller)
    if refusal is not None:
        return CATALOGUE[refusal][0].status, refusal
    return example.instead.get(caller.name, (op.status, None))


def _refusal(op: Operation, caller: Caller) -> Code | None:
    if op.scope is Scope.PUBLIC:
        return None
    known = {
        "anonymous": Code.CREDENTIAL_MISSING,
        "revoked": Code.CREDENTIAL_REVOKED,
        "narrow_account": Code.OPERATION_NOT_IN_ALLOW_LIST,
    }
    if caller.name in known:
        return known[caller.name]
    if op.scope in (Scope.ORG, Scope.PROJECT) and caller.org_role is None and caller.platform_role is None:
        return Code.ORG_MISSING if op.scope is Scope.ORG else Code.PROJECT_MISSING
    return None if op.permission in _held(op, caller) else Code.PERMISSION_DENIED


def _held(op: Operation, caller: Caller) -> set[Permission]:
    """The permissions that count for this operation."""
    if op.scope is Scope.USER:
        return {Permission.WHOAMI} | ({Permission.SELF} if caller.kind is ActorKind.USER else set())
    held = set(PLATFORM_GRANTS[caller.platform_role]) if caller.platform_role else set()
    if op.scope is not Scope.PLATFORM and caller.org_role is not None:
        held |= ROLE_GRANTS[caller.org_role]
    return held


def assert_refused(answer: httpx.Response, status: int, code: str) -> None:
    """The catalogue's shape: JSON, nothing but the known fields, the correlation id in body and header."""
    assert answer.status_code == status, f"{answer.status_code}, not {status}: {answer.text}"
    assert_shape(answer)
    assert answer.json()["error"]["code"] == code, answer.text


def assert_shape(answer: httpx.Response) -> None:
    assert answer.headers["content-type"] == "application/json", answer.text
    said = msgspec.json.decode(answer.content, type=Refusal).error
    msgspec.json.decode(answer.content, type=ErrorResponse)
    assert said.correlation_id == answer.headers["x-correlation-id"]
    assert CATALOGUE[Code(said.code)][0].status == answer.status_code
    assert said.message
    if answer.status_code == 401:
        assert answer.headers["www-authenticate"].startswith("Bearer")
    if answer.status_code in {429, 503}:
        assert int(answer.headers["retry-after"]) >= 1
