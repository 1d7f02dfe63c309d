"""What must be said is said: operations, events, error codes, policies, settings, and the files that declare them."""

import importlib
import re
import sys
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pytest

import gpuaas
from gpuaas.contracts.error_codes import CATALOGUE, Code
from gpuaas.contracts.events.base import EVENT_TYPES
from gpuaas.contracts.http.base import Done, Name, OneTime, Page, PageQuery, Query, Request, Response, ShownOnce
from gpuaas.contracts.permissions import Permission as P
from gpuaas.contracts.policy_keys import POLICY_KEYS
from gpuaas.domains import load_handlers, load_routes
from gpuaas.infra.http.context import OrgContext, PlatformContext, ProjectContext, PublicContext, UserContext
from gpuaas.infra.http.openapi import error_codes
from gpuaas.infra.http.operation import REGISTRY, DeclarationError, Lane, Registry, Stream, operation
from gpuaas.infra.http.rate import _KEYS
from gpuaas.processes.gen import documents
from gpuaas.processes.settings import PREFIX, Settings
from tests.every.allocation_stories import ALLOCATION_STORIES
from tests.every.asking import MUTATIONS, Asking, best_actor
from tests.every.billing_stories import BILLING_STORIES
from tests.every.fleet_stories import STORIES
from tests.every.payment_stories import PAYMENT_STORIES

SOURCE = Path(gpuaas.__file__).parent
# Answered before any operation is known.
BEFORE_OPERATIONS = {Code.WEBHOOK_SIGNATURE_REFUSED, Code.ROUTE_MISSING, Code.METHOD_NOT_ALLOWED}
# Told by something other than a change through the API, or not by the one example of it.
TOLD_ELSEWHERE = {
    "user.created": "by the first login of a subject, whatever operation it comes with",
    "dead_letter.opened": "by a consumer that gives up",
}


class Wanted(Request, frozen=True, kw_only=True):
    name: Name


class Unbounded(Request, frozen=True, kw_only=True):
    text: str


class UnboundedList(Request, frozen=True, kw_only=True):
    texts: list[Name]


class UnboundedInside(Request, frozen=True, kw_only=True):
    texts: Annotated[list[str], msgspec.Meta(max_length=3)] | None = None


class UnboundedQuery(Query, frozen=True, kw_only=True):
    text: str | None = None


class Loose(msgspec.Struct):
    name: Name


class BareSecret(Response, frozen=True, kw_only=True):
    secret: OneTime


class Secret(ShownOnce, frozen=True, kw_only=True):
    secret: OneTime


async def org_change(cx: OrgContext, wanted: Wanted) -> Done:
    """Change something."""
    return Done()


async def org_read(cx: OrgContext) -> Done:
    """Read something."""
    return Done()


async def org_page(cx: OrgContext) -> Page[Done]:
    """List something."""
    return Page(items=[])


async def org_stream(cx: OrgContext) -> Stream:
    """Read much."""
    raise NotImplementedError


async def public_change(cx: PublicContext, wanted: Wanted) -> Done:
    """Change something."""
    return Done()


async def public_read(cx: PublicContext) -> Done:
    """Read something."""
    return Done()


async def user_read(cx: UserContext) -> Done:
    """Read something."""
    return Done()


async def platform_change(cx: PlatformContext, wanted: Wanted) -> Done:
    """Change something."""
    return Done()


async def project_read(cx: ProjectContext) -> Done:
    """Read something."""
    return Done()


async def undocumented(cx: OrgContext) -> Done:
    return Done()


async def says_nothing(cx: OrgContext):
    """Answers with who knows what."""


async def without_context(wanted: Wanted) -> Done:
    """Changes for nobody."""
    return Done()


async def nothing_at_all() -> Done:
    """Has no parameters."""
    return Done()


def takes(kind: Any, answer: Any = Done) -> Any:
    async def handler(cx: OrgContext, wanted: Any) -> Any:
        """Change something."""

    handler.__annotations__ = {"cx": OrgContext, "wanted": kind, "return": answer}
    return handler


def asks(kind: Any) -> Any:
    async def handler(cx: OrgContext, query: Any) -> Done:
        """Read something."""
        return Done()

    handler.__annotations__ = {"cx": OrgContext, "query": kind, "return": Done}
    return handler


ORG, IN_PROJECT = "/orgs/{org_id}/things", "/projects/{project_id}/things"
CHANGE: dict[str, Any] = {"permission": P.ORGS_UPDATE, "lane": Lane.DEFAULT, "audit": "thing.change"}
READ: dict[str, Any] = {"permission": P.ORGS_READ, "lane": Lane.DEFAULT}
GOOD: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("POST", ORG, org_change, CHANGE),
    ("GET", ORG, org_read, READ),
    ("POST", "/things", public_change, {"lane": Lane.AUTH, "audit": "thing.change"}),
    ("GET", "/me", user_read, {"permission": P.SELF, "lane": Lane.DEFAULT}),
    (
        "POST",
        "/things",
        platform_change,
        {"permission": P.PLATFORM_MANAGE, "lane": Lane.ADMIN, "audit": "thing.change"},
    ),
    ("GET", IN_PROJECT, project_read, READ),
    ("POST", ORG, takes(Wanted, Secret), CHANGE),
]
BAD: list[tuple[str, str, Any, dict[str, Any], str]] = [
    ("FETCH", ORG, org_read, READ, "not one we use"),
    ("GET", ORG, org_read, {"permission": P.ORGS_READ}, "no rate lane"),
    ("GET", ORG, org_read, {"lane": Lane.DEFAULT}, "no permission"),
    ("GET", "/things", public_read, READ, "holds a permission"),
    ("POST", ORG, org_change, CHANGE | {"audit": None}, "names no audit action"),
    ("GET", ORG, org_read, READ | {"audit": "thing.read"}, "reads and names an audit action"),
    ("GET", ORG, org_read, READ | {"permission": P.SELF}, "the user scope's"),
    ("GET", "/me", user_read, READ, "the user scope's"),
    ("GET", ORG, org_read, READ | {"permission": P.PLATFORM_READ}, "the platform's alone"),
    ("GET", "/things", org_read, READ, "names {org_id}"),
    ("GET", ORG, project_read, READ, "names {project_id}"),
    ("GET", ORG, undocumented, READ, "no docstring"),
    ("GET", ORG, says_nothing, READ, "no return type"),
    ("GET", ORG, org_read, READ | {"produces": "text/csv"}, "a stream says what it produces"),
    ("GET", ORG, org_stream, READ, "a stream says what it produces"),
    ("GET", ORG, org_change, READ, "a GET takes no body"),
    ("POST", "/things", public_change, {"lane": Lane.DEFAULT, "audit": "thing.change"}, "uses the auth lane"),
    ("POST", "/things", platform_change, CHANGE | {"permission": P.PLATFORM_MANAGE}, "uses a strict lane"),
    ("POST", ORG, org_change, CHANGE | {"transaction": False}, "a change has a transaction"),
    ("POST", ORG, takes(Loose), CHANGE, "must derive from Request"),
    ("POST", ORG, takes(dict), CHANGE, "must derive from Request"),
    ("GET", ORG, asks(Loose), READ, "must derive from Query"),
    ("POST", ORG, takes(Wanted, BareSecret), CHANGE, "is ShownOnce"),
    ("GET", ORG, org_page, READ, "a page takes a PageQuery"),
    ("POST", ORG, takes(Unbounded), CHANGE, "Unbounded.text has no limit"),
    ("POST", ORG, takes(UnboundedList), CHANGE, "UnboundedList.texts has no limit"),
    ("POST", ORG, takes(UnboundedInside), CHANGE, "UnboundedInside.texts has no limit"),
    ("GET", ORG, asks(UnboundedQuery), READ, "UnboundedQuery.text has no limit"),
    ("POST", ORG, without_context, CHANGE, "must be a Context"),
    ("POST", ORG, nothing_at_all, CHANGE, "must be a Context"),
]


@pytest.mark.parametrize(("method", "path", "handler", "said"), GOOD)
def test_what_says_enough_is_declared(method, path, handler, said):
    registry = Registry()
    operation(method, path, registry=registry, **said)(handler)
    assert registry.ids() == {handler.__name__}


@pytest.mark.parametrize(("method", "path", "handler", "said", "problem"), BAD, ids=[bad[4] for bad in BAD])
def test_what_says_too_little_is_not_declared(method, path, handler, said, problem):
    with pytest.raises(DeclarationError, match=re.escape(problem)):
        operation(method, path, registry=Registry(), **said)(handler)


def test_an_id_and_a_path_are_declared_once():
    registry = Registry()
    operation("GET", ORG, registry=registry, **READ)(org_read)
    with pytest.raises(DeclarationError, match="declared twice"):
        operation("GET", "/orgs/{org_id}/others", registry=registry, **READ)(org_read)
    with pytest.raises(DeclarationError, match="is taken"):
        operation("GET", "/orgs/{org_id}/things", registry=registry, **READ)(asks(PageQuery))


def test_every_module_that_declares_is_found_by_its_name():
    load_routes()
    load_handlers()
    declaring = {
        "routes.py": re.compile(r"^@operation\(", re.MULTILINE),
        "handlers.py": re.compile(r"^@(reaction|timer)\(", re.MULTILINE),
    }
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        for name, mark in declaring.items():
            if mark.search(text):
                assert path.name == name, f"{path} declares, and is not called {name}"
        if path.name in declaring and path.is_relative_to(SOURCE / "domains"):
            module = ".".join(("gpuaas", *path.relative_to(SOURCE).with_suffix("").parts))
            assert module in sys.modules
            importlib.import_module(module)


def test_every_error_code_is_in_the_catalogue_and_declared_by_somebody():
    declared = {code for op in REGISTRY.all() for code in error_codes(op)}
    assert set(CATALOGUE) == set(Code)
    assert set(Code) - declared == BEFORE_OPERATIONS


def test_every_policy_is_read_somewhere():
    text = "\n".join(path.read_text() for path in SOURCE.rglob("*.py") if path.name != "policy_keys.py")
    by_lane = {key for pair in _KEYS.values() for key in pair}
    unread = [name for name in POLICY_KEYS if f'"{name}"' not in text and name not in by_lane]
    assert unread == []
    assert by_lane <= set(POLICY_KEYS)


def test_every_setting_is_documented():
    printed = documents.settings()
    assert [f.name for f in msgspec.structs.fields(Settings) if f"`{PREFIX}{f.name.upper()}`" not in printed] == []


def test_every_audit_action_names_a_noun_and_a_verb():
    assert [op.id for op in REGISTRY.all() if op.audit and not re.fullmatch(r"[a-z_]+\.[a-z_]+", op.audit)] == []


def test_every_operation_is_a_noun_and_a_verb_below_a_stable_path():
    for op in REGISTRY.json():
        assert re.fullmatch(r"[a-z][a-z0-9_]+", op.id)
        assert re.fullmatch(r"(/([a-z0-9-]+|\{[a-z_]+\}))+", op.path), op.path
        assert all(kind is not str for kind in op.path_params.values()), f"{op.id}: text in the path without a limit"


async def test_every_event_type_is_told_by_a_change(asking: Asking):
    """And no other: an event outside of the register cannot be emitted."""
    for op in MUTATIONS:
        answer = await asking.send(await asking.ask(op, best_actor(op)))
        assert answer.status_code == op.status, answer.text
    told = {row["name"] for row in await asking.sql.fetch("SELECT DISTINCT name FROM outbox")}
    assert told <= set(EVENT_TYPES)
    stories = {*STORIES, *ALLOCATION_STORIES, *BILLING_STORIES, *PAYMENT_STORIES}
    assert set(EVENT_TYPES) - told - stories - set(TOLD_ELSEWHERE) == set()
    assert stories <= set(EVENT_TYPES)


def test_ids_in_paths_are_ids():
    loose = [
        (op.id, name)
        for op in REGISTRY.json()
        for name, kind in op.path_params.items()
        if name.endswith("_id") and getattr(kind, "__supertype__", kind) is not UUID
    ]
    assert loose == []
