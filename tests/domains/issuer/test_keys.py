"""Signing keys: made once, sealed, rotated with an overlap."""

import asyncio
from typing import Any

import asyncpg
import pytest
from joserfc import jws

from gpuaas.domains.issuer.service import BuiltInKeys, keys_rotate
from gpuaas.infra.oidc.verifier import TokenVerifier
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.infra.signing import LEAD_SECONDS, OVERLAP_SECONDS, Purpose, SigningKeys
from gpuaas.kit.ids import new_id
from gpuaas.kit.secrets import MasterKey
from tests.support.issuer_site import Account, Robot, Site


def key_ids(jwks: dict[str, Any]) -> list[str]:
    return [key["kid"] for key in jwks["keys"]]


@pytest.fixture
async def fresh(db: Database, superuser: "asyncpg.Connection[asyncpg.Record]") -> SigningKeys:
    """No keys yet."""
    await superuser.execute("DELETE FROM signing_keys")
    return SigningKeys(MasterKey(b"m" * 32))


async def test_programs_that_find_no_key_at_once_make_one(db: Database, fresh: SigningKeys) -> None:
    async def first_use() -> str:
        async with db.transaction(Sight(), "test") as tx:
            return (await SigningKeys(MasterKey(b"m" * 32)).signer(tx, Purpose.ISSUER)).key_id

    assert len(set(await asyncio.gather(*(first_use() for _ in range(6))))) == 1
    assert len((await BuiltInKeys(db, fresh).fetch())["keys"]) == 1


async def test_the_first_reader_of_the_key_set_finds_a_key(db: Database, fresh: SigningKeys) -> None:
    jwks = await BuiltInKeys(db, fresh).fetch()
    assert jwks["keys"][0]["alg"] == "ES256"
    assert jwks["keys"][0]["use"] == "sig"
    assert "d" not in jwks["keys"][0], "the private part stays inside"
    assert await BuiltInKeys(db, fresh).fetch() == jwks


async def let_time_pass(superuser: Any, seconds: int) -> None:
    await superuser.execute(
        "UPDATE signing_keys SET signs_from = signs_from - $1 * interval '1 second', "
        "signs_until = signs_until - $1 * interval '1 second', valid_until = valid_until - $1 * interval '1 second'",
        seconds,
    )


async def test_a_new_key_is_published_first_then_signs_and_the_old_one_counts_on(
    db: Database, fresh: SigningKeys, superuser: Any
) -> None:
    async with db.transaction(Sight(), "test") as tx:
        old = await fresh.signer(tx, Purpose.ISSUER)
        before = old.token({"sub": "x"}, typ="JWT")
    async with db.transaction(Sight(), "test") as tx:
        new = await fresh.rotate(tx, Purpose.ISSUER)
    async with db.transaction(Sight(), "test") as tx:
        assert key_ids(await fresh.public_set(tx, Purpose.ISSUER)) == [new.key_id, old.key_id]
        assert (await fresh.signer(tx, Purpose.ISSUER)).key_id == old.key_id
    await let_time_pass(superuser, LEAD_SECONDS[Purpose.ISSUER])
    async with db.transaction(Sight(), "test") as tx:
        assert (await fresh.signer(tx, Purpose.ISSUER)).key_id == new.key_id
        assert await fresh.read_token(tx, Purpose.ISSUER, before, typ="JWT") == {"sub": "x"}
    await let_time_pass(superuser, OVERLAP_SECONDS)
    async with db.transaction(Sight(), "test") as tx:
        assert key_ids(await fresh.public_set(tx, Purpose.ISSUER)) == [new.key_id]
        assert await fresh.read_token(tx, Purpose.ISSUER, before, typ="JWT") is None


async def test_a_distrusted_key_no_longer_counts_but_is_remembered(db: Database, fresh: SigningKeys) -> None:
    async with db.transaction(Sight(), "test") as tx:
        old = await fresh.signer(tx, Purpose.ISSUER)
        before = old.token({"sub": "x"}, typ="JWT")
    async with db.transaction(Sight(), "test") as tx:
        await fresh.rotate(tx, Purpose.ISSUER)
    async with db.transaction(Sight(), "test") as tx:
        new = await fresh.rotate(tx, Purpose.ISSUER, distrust_old=True)
        assert (await fresh.signer(tx, Purpose.ISSUER)).key_id == new.key_id
        assert key_ids(await fresh.public_set(tx, Purpose.ISSUER)) == [new.key_id]
        assert await fresh.read_token(tx, Purpose.ISSUER, before, typ="JWT") is None
        assert len(await fresh.public_keys(tx, Purpose.ISSUER)) == 3


async def test_a_rotation_that_fails_leaves_the_key_that_was(db: Database, fresh: SigningKeys) -> None:
    async with db.transaction(Sight(), "test") as tx:
        old = await fresh.signer(tx, Purpose.ISSUER)

    async def fail() -> None:
        async with db.transaction(Sight(), "test") as tx:
            await fresh.rotate(tx, Purpose.ISSUER)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    async with db.transaction(Sight(), "test") as tx:
        assert (await fresh.signer(tx, Purpose.ISSUER)).key_id == old.key_id


async def test_rotations_at_once_leave_one_key_that_signs(db: Database, fresh: SigningKeys) -> None:
    async def rotate() -> None:
        async with db.transaction(Sight(), "test") as tx:
            await fresh.rotate(tx, Purpose.ISSUER)

    await asyncio.gather(*(rotate() for _ in range(6)))
    async with db.read(Sight()) as tx:
        keys = await fresh.public_keys(tx, Purpose.ISSUER)
    assert sum(key.signs_until is None for key in keys) == 1


async def test_purposes_have_keys_of_their_own_and_audit_signs_bytes(db: Database, fresh: SigningKeys) -> None:
    async with db.transaction(Sight(), "test") as tx:
        issuer, audit = await fresh.signer(tx, Purpose.ISSUER), await fresh.signer(tx, Purpose.AUDIT)
        assert issuer.key_id != audit.key_id
        (public,) = await fresh.public_keys(tx, Purpose.AUDIT)
    signature = audit.sign(b"the head of the chain")
    assert public.verifies(b"the head of the chain", signature)
    assert not public.verifies(b"the head of another chain", signature)
    assert not public.verifies(b"the head of the chain", b"nonsense")


async def test_a_private_key_is_sealed_and_opens_in_its_own_row_only(
    db: Database, fresh: SigningKeys, superuser: Any
) -> None:
    async with db.transaction(Sight(), "test") as tx:
        await fresh.signer(tx, Purpose.ISSUER)
    stored = await superuser.fetchval("SELECT private_sealed FROM signing_keys")
    assert b'"d"' not in stored
    async with db.transaction(Sight(), "test") as tx:
        with pytest.raises(ValueError, match="not sealed with this master key"):
            await SigningKeys(MasterKey(b"n" * 32)).signer(tx, Purpose.ISSUER)
    await superuser.execute("UPDATE signing_keys SET key_id = 'moved'")
    async with db.transaction(Sight(), "test") as tx:
        with pytest.raises(ValueError, match="not sealed with this master key"):
            await SigningKeys(MasterKey(b"m" * 32)).signer(tx, Purpose.ISSUER)


async def test_tokens_from_before_a_rotation_by_the_admin_are_still_taken(
    site: Site, ada: Account, superuser: Any
) -> None:
    await superuser.execute("DELETE FROM signing_keys")
    before = (await site.log_in(ada))["access_token"]
    assert await site.accepted(before)
    async with site.db.transaction(Sight(PLATFORM), "test") as tx:
        await tx.run("UPDATE users SET platform_roles = '{platform-admin}' WHERE subject = $1", ada.subject)
    answer = await site.http.post(
        f"{site.url}/api/v1/platform/issuer/keys/rotate",
        json={"reason": "by schedule"},
        headers={"authorization": f"Bearer {before}", "idempotency-key": new_id().hex},
    )
    assert answer.status_code == 200, answer.text
    new = answer.json()["keys"][0]["key_id"]
    assert new in key_ids((await site.http.get(f"{site.issuer}/jwks")).json())
    await site.parts.get(TokenVerifier).refresh()  # as every verifier does within five minutes
    await let_time_pass(superuser, LEAD_SECONDS[Purpose.ISSUER])
    after = (await site.log_in(ada))["access_token"]
    assert jws.extract_compact(after.encode()).headers()["kid"] == new
    assert await site.accepted(after)
    assert await site.accepted(before)


async def test_a_distrusted_key_is_refused_by_every_replica_within_a_second(
    site: Site, ada: Account, superuser: Any
) -> None:
    before = (await site.log_in(ada))["access_token"]
    assert await site.accepted(before)
    async with site.db.transaction(Sight(PLATFORM), "test") as tx:
        await keys_rotate(tx, site.keys, distrust_old=True)
    assert not await site.accepted(before)
    assert await site.accepted((await site.log_in(ada))["access_token"])


async def test_a_service_accounts_token_of_a_distrusted_key_is_refused_too(site: Site, robot: Robot) -> None:
    """On a replica that nobody but the machine speaks to."""
    before = (await site.token("client_credentials", str(robot.id), client_secret=robot.key)).json()["access_token"]
    assert await site.accepted(before)
    async with site.db.transaction(Sight(PLATFORM), "test") as tx:
        await keys_rotate(tx, site.keys, distrust_old=True)
    verifier = site.parts.get(TokenVerifier)
    verifier._obeyed_at = float("-inf")  # the test before this one asked for the keys a moment ago
    assert not await site.accepted(before)
