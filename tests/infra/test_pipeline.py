"""The pipeline, on operations of its own: what every operation gets without asking for it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated
from uuid import UUID

import httpx
import msgspec
import pytest

from gpuaas.contracts.actor import Actor, ActorKind
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.platform import OrgUpdated
from gpuaas.contracts.http.base import Name, OneTime, Page, PageQuery, Request, Response, ShownOnce
from gpuaas.contracts.permissions import Permission, PlatformRole, Role
from gpuaas.domains.policy.models import Override, Place
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.http.app import App
from gpuaas.infra.http.context import OrgContext, PublicContext
from gpuaas.infra.http.operation import Lane, Registry, operation
from gpuaas.infra.http.pipeline import Answer, Edge
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.errors import Unauthenticated
from gpuaas.kit.ids import OrgId, ProjectId, new_id
from gpuaas.kit.parts import Parts

ORG, OTHER_ORG = OrgId(new_id()), OrgId(new_id())
registry = Registry()


class Wanted(Request, frozen=True, kw_only=True):
    name: Name
    count: Annotated[int, msgspec.Meta(ge=0, le=10)] = 0


class Made(Response, frozen=True, kw_only=True):
    id: UUID
    name: str


class Secret(ShownOnce, frozen=True, kw_only=True):
    id: UUID
    secret: OneTime


@operation(
    "POST",
    "/t/{org_id}/things",
    permission=Permission.PROJECTS_CREATE,
    lane=Lane.DEFAULT,
    audit="thing.create",
    status=201,
    registry=registry,
)
async def thing_create(cx: OrgContext, wanted: Wanted) -> Made:
    """Make a thing."""
    made = new_id()
    await cx.tx.run(
        "INSERT INTO projects (id, org_id, name, title) VALUES ($1, $2, $3, 'T')", made, cx.org_id, wanted.name
    )
    cx.tx.emit(OrgUpdated(org_id=cx.org_id), subject_id=made)
    return Made(id=made, name=wanted.name)


@operation(
    "POST",
    "/t/{org_id}/secrets",
    permission=Permission.PROJECTS_CREATE,
    lane=Lane.DEFAULT,
    audit="secret.create",
    status=201,
    registry=registry,
)
async def secret_create(cx: OrgContext, wanted: Wanted) -> Secret:
    """Make a secret."""
    return Secret(id=new_id(), secret=f"hush-{wanted.name}")


@operation("GET", "/t/{org_id}/things", permission=Permission.PROJECTS_READ, lane=Lane.DEFAULT, registry=registry)
async def thing_list(cx: OrgContext, query: PageQuery) -> Page[Made]:
    """List things."""
    after = cx.cursor_position(query.cursor)
    rows = await cx.tx.rows(
        "SELECT id, name FROM projects WHERE org_id = $1 AND ($2::text IS NULL OR name > $2) ORDER BY name LIMIT $3",
        cx.org_id,
        after[0] if after else None,
        query.limit,
    )
    items = [Made(id=row["id"], name=row["name"]) for row in rows]
    return Page(items=items, next_cursor=cx.next_cursor(items[-1].name) if len(items) == query.limit else None)


@operation("POST", "/t/knocks", lane=Lane.AUTH, audit="knock", status=201, registry=registry)
async def knock(cx: PublicContext, wanted: Wanted) -> Made:
    """Something anybody may do."""
    return Made(id=new_id(), name=wanted.name)


class Directory:
    """An authority whose people are written down here."""

    people = {
        "owner-token": Actor(kind=ActorKind.USER, id=new_id(), name="owner", org_roles={ORG: Role.OWNER}),
        "viewer-token": Actor(kind=ActorKind.USER, id=new_id(), name="viewer", org_roles={ORG: Role.VIEWER}),
        "stranger-token": Actor(kind=ActorKind.USER, id=new_id(), name="stranger", org_roles={OTHER_ORG: Role.OWNER}),
        "platform-token": Actor(
            kind=ActorKind.USER, id=new_id(), name="pa", platform_roles=frozenset({PlatformRole.ADMIN})
        ),
        "machine-token": Actor(
            kind=ActorKind.SERVICE_ACCOUNT,
            id=new_id(),
            name="m",
            org_roles={ORG: Role.ADMIN},
            allowed_operations=frozenset({"thing_list"}),
        ),
    }

    def recall(self, credential: str) -> Actor | None:
        return None

    async def actor(self, credential: str, *, fresh: bool = False) -> Actor:
        if credential not in self.people:
            raise Unauthenticated(Code.CREDENTIAL_INVALID, "unknown")
        return self.people[credential]

    async def org_of(self, project_id: ProjectId) -> OrgId | None:
        return None

    async def org_exists(self, org_id: OrgId) -> bool:
        return org_id in {ORG, OTHER_ORG}


async def hello(_: object) -> Answer:
    return Answer(200, b"hello", b"text/plain")


@pytest.fixture(scope="module")
async def http(db: Database, superuser) -> AsyncIterator[httpx.AsyncClient]:
    for org in (ORG, OTHER_ORG):
        await superuser.execute("INSERT INTO orgs (id, name, title) VALUES ($1, $2, 'T')", org, f"o-{org.hex}")
    edge = Edge(db=db, authority=Directory(), policy=MemoryPolicy(), cursor_key=b"k" * 32, parts=Parts())
    app = App(registry, edge, pages={"/hello": hello})
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test/api/v1") as client:
        yield client


def bearer(who: str, key: str | None = None) -> dict[str, str]:
    return {"Authorization": f"Bearer {who}-token", "Idempotency-Key": key or new_id().hex}


async def make(http: httpx.AsyncClient, who: str = "owner", key: str | None = None, **body) -> httpx.Response:
    return await http.post(f"/t/{ORG}/things", headers=bearer(who, key), json={"name": f"n-{new_id().hex}"} | body)


async def test_a_change_leaves_its_row_one_audit_row_and_its_event(http, superuser):
    answer = await make(http, name="first")
    assert answer.status_code == 201
    made = UUID(answer.json()["id"])
    audit = await superuser.fetch("SELECT * FROM audit_log WHERE subject_id = $1", made)
    assert [(row["action"], row["org_id"], row["correlation_id"]) for row in audit] == [
        ("thing.create", ORG, answer.headers["x-correlation-id"])
    ]
    assert await superuser.fetchval("SELECT count(*) FROM audit_unsealed WHERE audit_id = $1", audit[0]["id"]) == 1
    event = await superuser.fetchrow("SELECT * FROM outbox WHERE subject_id = $1", made)
    assert (event["name"], event["correlation_id"]) == ("org.updated", answer.headers["x-correlation-id"])


async def test_a_replay_gives_the_same_bytes_and_does_nothing(http, superuser):
    key = new_id().hex
    first = await make(http, key=key, name="replayed")
    again = await make(http, key=key, name="replayed")
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    assert await superuser.fetchval("SELECT count(*) FROM projects WHERE name = 'replayed'") == 1


async def test_a_key_with_another_body_is_refused(http):
    key = new_id().hex
    await make(http, key=key, name="body-one")
    answer = await make(http, key=key, name="body-two")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "idempotency_key_reused")


async def test_twenty_at_once_with_one_key_have_one_effect(http, superuser):
    key = new_id().hex
    answers = await asyncio.gather(*(make(http, key=key, name="raced") for _ in range(20)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert await superuser.fetchval("SELECT count(*) FROM projects WHERE name = 'raced'") == 1


async def test_a_secret_is_shown_once_and_never_stored(http, superuser):
    key, url = new_id().hex, f"/t/{ORG}/secrets"
    first = await http.post(url, headers=bearer("owner", key), json={"name": "s"})
    again = await http.post(url, headers=bearer("owner", key), json={"name": "s"})
    assert (first.json()["secret"], first.json()["already_shown"]) == ("hush-s", False)
    assert (again.json()["secret"], again.json()["already_shown"]) == (None, True)
    assert first.json()["id"] == again.json()["id"]
    stored = await superuser.fetchval("SELECT body FROM idempotency_keys WHERE key = $1", key)
    assert b"hush" not in stored


@pytest.mark.parametrize(
    ("who", "status", "code"),
    [
        ("nobody", 401, "credential_invalid"),
        ("viewer", 403, "permission_denied"),
        ("stranger", 404, "org_missing"),
        ("machine", 403, "operation_not_in_allow_list"),
        ("platform", 201, None),
    ],
)
async def test_who_may_and_what_the_others_hear(http, who, status, code):
    answer = await make(http, who)
    assert answer.status_code == status
    if code:
        assert answer.json()["error"]["code"] == code


async def test_another_tenants_organisation_and_none_give_the_same_answer(http):
    theirs = await http.get(f"/t/{OTHER_ORG}/things", headers=bearer("owner"))
    none = await http.get(f"/t/{new_id()}/things", headers=bearer("owner"))
    for answer in (theirs, none):
        answer.json()["error"].pop("correlation_id")
    assert theirs.status_code == none.status_code == 404
    assert {**theirs.json()["error"], "correlation_id": ""} == {**none.json()["error"], "correlation_id": ""}


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ('{"name": "ok", "extra": 1}', 422, "extra"),
        ('{"name": ""}', 422, "name"),
        ('{"name": "Not Lower"}', 422, "name"),
        ('{"count": 1}', 422, "name"),
        ('{"name": "ok", "count": -1}', 422, "count"),
        ('{"name": "ok", "count": "3"}', 422, "count"),
        ('{"name": "ok", "count": 1e400}', 422, "count"),
        ('{"name": "ok", "count": NaN}', 400, None),
        ('{"name": "ok", "name": "other"}', 422, "name"),
        ('{"name": "ok\\u0000"}', 422, "name"),
        ("[" * 5000, 422, None),
        ('{"name": ', 400, None),
        ("", 400, None),
    ],
)
async def test_bad_bodies_are_refused_with_the_field(http, body, status, field):
    answer = await http.post(
        f"/t/{ORG}/things", headers=bearer("owner") | {"content-type": "application/json"}, content=body
    )
    assert answer.status_code == status, answer.text
    if field:
        assert answer.json()["error"]["details"][0]["field"] == field


async def test_a_cursor_of_another_list_or_tenant_or_made_up_is_refused(http):
    for _ in range(3):
        await make(http)
    page = (await http.get(f"/t/{ORG}/things?limit=2", headers=bearer("owner"))).json()
    follow = await http.get(f"/t/{ORG}/things?limit=2&cursor={page['next_cursor']}", headers=bearer("owner"))
    assert follow.status_code == 200
    assert not {item["id"] for item in page["items"]} & {item["id"] for item in follow.json()["items"]}
    for cursor, who in ((page["next_cursor"], "viewer"), (page["next_cursor"][:-2] + "AA", "owner"), ("x", "owner")):
        answer = await http.get(f"/t/{ORG}/things?limit=2&cursor={cursor}", headers=bearer(who))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "cursor_refused")


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"content-type": "text/plain"}, 415, "content_type_unsupported"),
        ({"content-type": "application/json", "content-encoding": "gzip"}, 415, "content_encoding_unsupported"),
    ],
)
async def test_a_wrong_content_type_or_encoding_is_refused(http, headers, status, code):
    answer = await http.post(f"/t/{ORG}/things", headers=bearer("owner") | headers, content=b"{}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_a_change_without_a_key_is_refused(http):
    answer = await http.post(f"/t/{ORG}/things", headers={"Authorization": "Bearer owner-token"}, json={"name": "x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "idempotency_key_required")


async def test_a_body_too_large_is_refused_before_it_is_read(http):
    answer = await make(http, name="a" * 70_000)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "route_missing"),
        ("PUT", "/t/{org}/things", 405, "method_not_allowed"),
        ("GET", "/t/not-an-id/things", 422, "request_invalid"),
        ("GET", "/t/{org}/things?limit=0", 422, "request_invalid"),
        ("GET", "/t/{org}/things?limit=5&limit=6", 422, "request_invalid"),
        ("GET", "/t/{org}/things?unknown=5", 422, "request_invalid"),
    ],
)
async def test_wrong_paths_methods_and_queries(http, method, path, status, code):
    answer = await http.request(method, path.format(org=ORG), headers=bearer("owner"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.json()["error"]["correlation_id"] == answer.headers["x-correlation-id"]


async def test_being_refused_takes_a_place_in_the_lane_too(http):
    """A stranger who asks again and again for what is not his has to wait, like everybody."""
    Directory.people["nosy-token"] = Actor(kind=ActorKind.USER, id=new_id(), name="nosy")
    policy = http._transport.app.edge.policy
    narrow = {"rate_limit.default_per_minute": 1, "rate_limit.default_burst": 5}
    policy.load(1, [Override(key=key, place=Place(), value=value) for key, value in narrow.items()])
    try:
        answers = [await http.get(f"/t/{ORG}/things", headers=bearer("nosy")) for _ in range(10)]
    finally:
        policy.load(0, [])
    assert [answer.status_code for answer in answers] == [404] * 5 + [429] * 5


async def test_an_escaped_backslash_before_u0000_is_not_nul(http):
    headers = bearer("owner") | {"content-type": "application/json"}
    answer = await http.post(f"/t/{ORG}/things", headers=headers, content=b'{"name": "a\\\\u0000"}')
    assert "NUL" not in answer.text


async def test_two_who_are_nobody_and_choose_the_same_key_have_nothing_to_do_with_each_other(http, superuser):
    app = http._transport.app  # the same application, seen from other addresses
    key = "k" * 200

    async def ask(address: str, name: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://test/api/v1") as client:
            return await client.post("/t/knocks", headers={"Idempotency-Key": key}, json={"name": name})

    first, again = await ask("192.0.2.1", "same"), await ask("192.0.2.1", "same")
    assert (first.status_code, again.content, again.headers["idempotency-replayed"]) == (201, first.content, "true")
    other = await ask("192.0.2.2", "same")
    assert (other.status_code, other.json()["id"] != first.json()["id"]) == (201, True)
    assert (await ask("192.0.2.3", "different")).status_code == 201, "nor is his key taken"
    assert (await ask("192.0.2.1", "different")).status_code == 422
    stored = await superuser.fetch("SELECT key FROM idempotency_keys WHERE operation = 'knock'")
    assert all(len(row["key"]) <= 200 and key not in row["key"] and "192.0.2" not in row["key"] for row in stored)


@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("HEAD", 200), ("POST", 405), ("DELETE", 405)])
async def test_a_page_is_read_and_nothing_else(http, method, status):
    answer = await http.request(method, "http://test/hello")
    assert answer.status_code == status
    assert status == 200 or answer.headers["allow"] == "GET, HEAD"
