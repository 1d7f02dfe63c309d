"""From a credential to the actor behind it, on the real database."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from gpuaas.contracts.actor import Actor, ActorKind
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.permissions import PlatformRole, Role
from gpuaas.domains.identity.authority.service import CredentialAuthority
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.errors import Denied, Fault, Unauthenticated
from gpuaas.kit.ids import new_id
from tests.support.servers import DatabaseUrls
from tests.support.tokens import IssuerOfTests

Superuser = asyncpg.Connection  # a connection past all walls


@pytest.fixture
def issuer() -> IssuerOfTests:
    return IssuerOfTests()


@pytest.fixture
def authority(db: Database, issuer: IssuerOfTests) -> CredentialAuthority:
    return CredentialAuthority(db, issuer.verifier())


@pytest.fixture
async def second_replica(database: DatabaseUrls, issuer: IssuerOfTests) -> AsyncIterator[CredentialAuthority]:
    other = Database(database.app)
    await other.open()
    yield CredentialAuthority(other, issuer.verifier())
    await other.close()


async def test_the_first_login_makes_the_user_and_his_personal_organisation(authority, issuer, superuser):
    subject = new_id().hex
    actor = await authority.actor(issuer.token(subject, email=f"Ada.{subject}@example.com", name="Ada L\n"))
    assert (actor.kind, actor.name, actor.email) == (ActorKind.USER, "Ada L", f"Ada.{subject}@example.com")
    assert list(actor.org_roles.values()) == [Role.OWNER]
    org = await superuser.fetchrow("SELECT * FROM orgs WHERE personal_of = $1", actor.id)
    assert org["name"].startswith(f"ada-{subject[:10]}")
    events = await superuser.fetch("SELECT name FROM outbox WHERE org_id = $1", org["id"])
    assert sorted(event["name"] for event in events) == ["org.created", "user.created"]
    audited = await superuser.fetch("SELECT action, actor_kind FROM audit_log WHERE subject_id = $1", actor.id)
    assert [tuple(row) for row in audited] == [("user.create", "system")]


async def test_thirty_first_logins_at_once_make_one_user(db, issuer, superuser):
    subject = new_id().hex
    replicas = [CredentialAuthority(db, issuer.verifier()) for _ in range(3)]
    actors = await asyncio.gather(*(replicas[n % 3].actor(issuer.token(subject)) for n in range(30)))
    assert len({actor.id for actor in actors}) == 1
    count = "SELECT count(*) FROM orgs WHERE personal_of = $1"
    assert await superuser.fetchval(count, actors[0].id) == 1
    assert await superuser.fetchval("SELECT count(*) FROM audit_log WHERE subject_id = $1", actors[0].id) == 1


async def test_one_credential_is_read_at_most_once_a_second(authority, issuer, db, monkeypatch):
    token = issuer.token(new_id().hex)
    await authority.actor(token)
    reads = 0
    really = db.read

    def counted(sight):
        nonlocal reads
        reads += 1
        return really(sight)

    monkeypatch.setattr(db, "read", counted)
    await asyncio.gather(*(authority.actor(token) for _ in range(50)))
    await asyncio.sleep(1)
    await asyncio.gather(*(authority.actor(token) for _ in range(50)))
    assert reads == 1


async def test_a_revoked_token_is_refused_within_a_second_on_two_replicas(authority, second_replica, issuer, superuser):
    token = issuer.token(new_id().hex)
    actor = await authority.actor(token)
    await second_replica.actor(token)
    await superuser.execute(
        "INSERT INTO revoked_credentials (credential_id, reason, expires_at) VALUES ($1, 'test', now())",
        actor.credential_id,
    )
    await asyncio.sleep(1)
    for replica in (authority, second_replica):
        with pytest.raises(Unauthenticated) as refused:
            await replica.actor(token)
        assert refused.value.code == Code.CREDENTIAL_REVOKED


async def test_a_revoked_token_does_not_make_a_user(authority, issuer, superuser):
    subject, jti = new_id().hex, new_id().hex
    await superuser.execute(
        "INSERT INTO revoked_credentials (credential_id, reason, expires_at) VALUES ($1, 'test', now())", jti
    )
    with pytest.raises(Unauthenticated):
        await authority.actor(issuer.token(subject, jti=jti))
    assert await superuser.fetchval("SELECT count(*) FROM users WHERE subject = $1", subject) == 0


async def test_a_disabled_user_is_denied_and_an_enabled_one_is_let_in_at_once(authority, issuer, superuser):
    token = issuer.token(new_id().hex)
    actor = await authority.actor(token)
    await superuser.execute("UPDATE users SET state = 'disabled' WHERE id = $1", actor.id)
    with pytest.raises(Denied) as denied:
        await authority.actor(token, fresh=True)
    assert denied.value.code == Code.ACCOUNT_DISABLED
    await superuser.execute("UPDATE users SET state = 'active' WHERE id = $1", actor.id)
    assert (await authority.actor(token)).id == actor.id


async def test_a_fresh_look_sees_a_role_given_a_moment_ago(authority, issuer, superuser):
    token = issuer.token(new_id().hex)
    actor = await authority.actor(token)
    org = new_id()
    await superuser.execute("INSERT INTO orgs (id, name, title) VALUES ($1, $2, 'x')", org, f"o-{org.hex}")
    await superuser.execute("INSERT INTO org_members (org_id, user_id, role) VALUES ($1, $2, 'viewer')", org, actor.id)
    assert org not in (await authority.actor(token)).org_roles
    assert (await authority.actor(token, fresh=True)).org_roles[org] is Role.VIEWER


async def test_the_roles_of_deleted_organisations_and_projects_are_gone(authority, issuer, superuser):
    token = issuer.token(new_id().hex)
    actor = await authority.actor(token)
    org, project = new_id(), new_id()
    await superuser.execute("INSERT INTO orgs (id, name, title) VALUES ($1, $2, 'x')", org, f"o-{org.hex}")
    await superuser.execute("INSERT INTO org_members (org_id, user_id, role) VALUES ($1, $2, 'viewer')", org, actor.id)
    await superuser.execute("INSERT INTO projects (id, org_id, name, title) VALUES ($1, $2, 'p', 'p')", project, org)
    await superuser.execute(
        "INSERT INTO project_members (org_id, project_id, user_id, role) VALUES ($1, $2, $3, 'admin')",
        org,
        project,
        actor.id,
    )
    assert (await authority.actor(token, fresh=True)).project_roles == {project: Role.ADMIN}
    assert await authority.org_of(project) == org
    await superuser.execute("UPDATE projects SET deleted_at = now() WHERE id = $1", project)
    assert (await authority.actor(token, fresh=True)).project_roles == {}
    await asyncio.sleep(1)
    assert await authority.org_of(project) is None
    await superuser.execute("UPDATE orgs SET deleted_at = now() WHERE id = $1", org)
    assert org not in (await authority.actor(token, fresh=True)).org_roles
    assert not await authority.org_exists(org)


async def test_a_login_is_noted_once_a_minute_and_follows_the_address_of_the_issuer(authority, issuer, superuser):
    subject = new_id().hex
    actor = await authority.actor(issuer.token(subject))
    await superuser.execute("UPDATE users SET last_login_at = now() - interval '59 s' WHERE id = $1", actor.id)
    before = await superuser.fetchval("SELECT last_login_at FROM users WHERE id = $1", actor.id)
    await authority.actor(issuer.token(subject))
    assert await superuser.fetchval("SELECT last_login_at FROM users WHERE id = $1", actor.id) == before
    await superuser.execute("UPDATE users SET last_login_at = now() - interval '61 s' WHERE id = $1", actor.id)
    await authority.actor(issuer.token(subject))
    assert await superuser.fetchval("SELECT last_login_at FROM users WHERE id = $1", actor.id) > before
    await authority.actor(issuer.token(subject, email="new@example.com", email_verified=False, name="Another"))
    row = await superuser.fetchrow("SELECT email, email_verified, name FROM users WHERE id = $1", actor.id)
    assert tuple(row) == ("new@example.com", False, subject.title())


async def test_an_address_the_issuer_has_not_verified_is_kept_as_unverified(authority, issuer, superuser):
    subject = new_id().hex
    actor = await authority.actor(issuer.token(subject, email_verified=None))
    assert await superuser.fetchval("SELECT email_verified FROM users WHERE id = $1", actor.id) is False


async def test_a_token_without_an_id_can_still_be_revoked(authority, issuer, superuser):
    token = issuer.token(new_id().hex, jti=None)
    actor = await authority.actor(token)
    assert actor.credential_id.startswith("sha256:")
    await superuser.execute(
        "INSERT INTO revoked_credentials (credential_id, reason, expires_at) VALUES ($1, 'test', now())",
        actor.credential_id,
    )
    with pytest.raises(Unauthenticated):
        await authority.actor(token, fresh=True)


async def test_a_token_ends_when_it_says_even_inside_of_the_cache(authority, issuer):
    token = issuer.token(new_id().hex, seconds=-28)
    assert (await authority.actor(token)).id
    await asyncio.sleep(2.2)
    with pytest.raises(Unauthenticated) as refused:
        await authority.actor(token)
    assert refused.value.code == Code.CREDENTIAL_EXPIRED


async def test_break_glass_on_one_replica_makes_all_read_the_keys_again(authority, second_replica, issuer, superuser):
    token = issuer.token(new_id().hex)
    await authority.actor(token)
    await second_replica.actor(token)
    stolen = issuer.keys.pop()
    issuer.add_key()
    await asyncio.sleep(1)
    assert await second_replica.actor(token)  # five minutes have not passed
    await superuser.execute(
        "INSERT INTO issuer_key_marks (marked_at) VALUES (now()) ON CONFLICT (single) DO UPDATE SET marked_at = now()"
    )
    await asyncio.sleep(1)
    for replica in (authority, second_replica):
        with pytest.raises(Unauthenticated):
            await replica.actor(token)
    with pytest.raises(Unauthenticated):
        await authority.actor(issuer.token("ada", key=stolen))
    await superuser.execute("DELETE FROM issuer_key_marks")


@pytest.fixture
def remembering(monkeypatch) -> None:
    """An actor is remembered for longer than any machine takes to run a test."""
    monkeypatch.setattr("gpuaas.domains.identity.authority.service.CACHE_SECONDS", 60)


@pytest.mark.usefixtures("remembering")
async def test_who_was_just_read_is_recalled_until_he_is_refused(authority, issuer, superuser):
    token = issuer.token(new_id().hex)
    assert authority.recall(token) is None
    actor = await authority.actor(token)
    assert authority.recall(token) is actor
    await superuser.execute("UPDATE users SET state = 'disabled' WHERE id = $1", actor.id)
    with pytest.raises(Denied):
        await authority.actor(token, fresh=True)
    assert authority.recall(token) is None


@pytest.mark.usefixtures("remembering")
async def test_who_is_recalled_is_as_he_was_last_read(authority, issuer, superuser):
    token = issuer.token(new_id().hex)
    actor = await authority.actor(token)
    await superuser.execute("UPDATE users SET platform_roles = '{platform-admin}' WHERE id = $1", actor.id)
    assert authority.recall(token).platform_roles == frozenset()
    await authority.actor(token, fresh=True)
    assert authority.recall(token).platform_roles == {PlatformRole.ADMIN}


@pytest.mark.usefixtures("remembering")
async def test_nobody_is_recalled_beyond_the_end_of_his_token(authority, issuer):
    token = issuer.token(new_id().hex, seconds=-28)
    await authority.actor(token)
    await asyncio.sleep(2.2)
    assert authority.recall(token) is None


async def test_credentials_are_kept_in_clear_for_a_second_and_no_longer(authority, issuer):
    first, second = issuer.token(new_id().hex), issuer.token(new_id().hex)
    await authority.actor(first)
    await asyncio.sleep(1)
    assert authority.recall(first) is None
    await authority.actor(second)
    assert list(authority._recent._actors) == [second]


async def test_what_is_not_remembered_is_bounded(authority, issuer, monkeypatch):
    monkeypatch.setattr("gpuaas.domains.identity.authority.service.MAX_CREDENTIALS", 5)
    subject = new_id().hex
    for _ in range(20):
        await authority.actor(issuer.token(subject))
    for _ in range(20):
        with pytest.raises(Fault):
            await authority.actor("gpuaas_sk_" + new_id().hex)
    assert len(authority._known) <= 5
    assert len(authority._recent._actors) <= 5


async def test_nobody_gets_in_while_the_database_is_away(database: DatabaseUrls, issuer):
    there = Database(database.app)
    await there.open()
    replica = CredentialAuthority(there, issuer.verifier())
    token = issuer.token(new_id().hex)
    assert isinstance(await replica.actor(token), Actor)
    await there.close()
    with pytest.raises((Fault, asyncpg.InterfaceError)):
        await replica.actor(token, fresh=True)
