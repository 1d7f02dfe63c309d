"""The demo: the same people and passwords however often it is seeded, and nothing a person did is undone."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import asyncpg
import pytest

from gpuaas.domains.issuer.accounts.store import by_email
from gpuaas.infra.embedded.errors import EmbeddedError
from gpuaas.infra.passwords import Passwords
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.processes.settings import Settings
from gpuaas.processes.up.errors import UpError
from gpuaas.processes.up.fleet_seed import KINDS, seed_fleet
from gpuaas.processes.up.seed import Login, demo_logins, seed
from tests.support.servers import DatabaseUrls, clone

ADMIN = Login("platform_admin", "admin@demo.example", "first-password-a")
OWNER = Login("tenant_owner", "owner@demo.example", "first-password-o")


@pytest.fixture
async def urls(template: DatabaseUrls) -> AsyncIterator[DatabaseUrls]:
    async with clone(template) as made:
        yield made


def settings(urls: DatabaseUrls) -> Settings:
    return Settings(
        database_url=urls.app,
        nats_url="nats://127.0.0.1:1",
        master_key=base64.b64encode(bytes(32)).decode(),
        public_url="http://127.0.0.1:8080",
    )


async def rows(urls: DatabaseUrls, sql: str) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(urls.superuser)
    try:
        return [tuple(row) for row in await connection.fetch(sql)]
    finally:
        await connection.close()


async def test_there_is_an_admin_of_the_platform_and_an_owner_with_an_organisation_and_a_project(urls):
    await seed(settings(urls), [ADMIN, OWNER])
    people = await rows(urls, "SELECT email, platform_roles FROM users ORDER BY email")
    assert people == [("admin@demo.example", ["platform-admin"]), ("owner@demo.example", [])]
    owned = """
        SELECT o.name, m.role, p.name, u.email FROM orgs o JOIN org_members m ON m.org_id = o.id
        JOIN users u ON u.id = m.user_id JOIN projects p ON p.org_id = o.id
    """
    assert await rows(urls, owned) == [("demo", "owner", "first-project", "owner@demo.example")]
    given = "SELECT o.name, e.balance_micros FROM ledger_entries e JOIN orgs o ON o.id = e.org_id"
    assert await rows(urls, given) == [("demo", 1_000_000_000)]


async def test_each_password_opens_its_login_at_the_built_in_issuer(urls):
    await seed(settings(urls), [ADMIN, OWNER])
    db, passwords = Database(urls.app), Passwords()
    await db.open()
    try:
        async with db.read(Sight(PLATFORM)) as tx:
            for login in (ADMIN, OWNER):
                account = await by_email(tx, login.email)
                assert account is not None
                assert await passwords.verify(login.password, account.password_hash)
    finally:
        passwords.close()
        await db.close()


async def test_seeding_again_changes_nothing(urls):
    await seed(settings(urls), [ADMIN, OWNER])
    everything = "SELECT (SELECT count(*) FROM users), (SELECT count(*) FROM orgs), (SELECT count(*) FROM outbox), "
    everything += "(SELECT count(*) FROM ledger_entries)"
    before = await rows(urls, everything)
    await seed(settings(urls), [ADMIN, OWNER])
    assert await rows(urls, everything) == before


async def test_what_a_person_deleted_stays_deleted(urls):
    await seed(settings(urls), [ADMIN, OWNER])
    # With its money, which nobody but a superuser past all triggers could do: the seed does not mind how it came to be.
    gone = "SET LOCAL session_replication_role = replica; UPDATE orgs SET deleted_at = now() WHERE name = ''demo''"
    await rows(urls, f"DO $$ BEGIN EXECUTE '{gone}'; END $$")
    await rows(urls, "UPDATE users SET platform_roles = '{}'")
    await seed(settings(urls), [ADMIN, OWNER])
    assert await rows(urls, "SELECT 1 FROM orgs WHERE name = 'demo' AND deleted_at IS NULL") == []
    assert await rows(urls, "SELECT DISTINCT platform_roles FROM users") == [([],)]


async def test_an_organisation_that_has_the_name_already_is_left_alone(urls):
    other = Login("tenant_owner", "somebody@demo.example", "first-password-s")
    await seed(settings(urls), [other])
    await seed(settings(urls), [ADMIN, OWNER])
    names = await rows(urls, "SELECT name FROM orgs WHERE personal_of IS NULL ORDER BY created_at")
    assert names[0] == ("demo",)
    assert str(names[1][0]).startswith("demo-")


def test_passwords_are_made_once_and_kept_private(tmp_path):
    made = demo_logins(tmp_path)
    assert demo_logins(tmp_path) == made
    assert len({login.password for login in made}) == len(made)
    assert (tmp_path / "demo.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / "demo.json").chmod(0o644)
    with pytest.raises(EmbeddedError, match="may be read by others"):
        demo_logins(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"[1]", b'[{"role": "tenant_owner"}]', b'{"a": 1}'])
def test_damaged_passwords_are_named(tmp_path, content):
    (tmp_path / "demo.json").touch(mode=0o600)
    (tmp_path / "demo.json").write_bytes(content)
    with pytest.raises(UpError, match="damaged"):
        demo_logins(tmp_path)


async def test_the_catalogue_is_there_without_a_fleet_and_made_once(urls, tmp_path):
    for nodes in (0, 0, 2):
        await seed_fleet(settings(urls), tmp_path / "fleet", nodes)
    assert await rows(urls, "SELECT name FROM skus ORDER BY name") == [(kind.sku,) for kind in KINDS]
    assert await rows(urls, "SELECT count(*) FROM sku_prices") == [(len(KINDS),)]
    assert await rows(urls, "SELECT name FROM nodes ORDER BY name") == [("demo-001",), ("demo-002",)]
