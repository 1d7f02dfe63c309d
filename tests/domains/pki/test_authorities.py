"""Authorities: made once, sealed, followed by others with overlap."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from cryptography import x509

from gpuaas.contracts.http.pki import AuthorityKind, AuthorityState, RotatedKind
from gpuaas.domains.pki import service
from gpuaas.domains.pki.models import AuthorityStanding
from gpuaas.domains.pki.site import Pki
from gpuaas.infra.ca.builtin import BuiltInCa
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.secrets import MasterKey
from gpuaas.ports.ca import Authority
from tests.support.certificates import SEES_ALL, enrolled
from tests.support.servers import DatabaseUrls, clone

K = AuthorityKind


@pytest.fixture
async def fresh(template: DatabaseUrls) -> Any:
    """A database no authority was made in yet."""
    async with clone(template) as urls:
        db = Database(urls.app)
        await db.open()
        yield db
        await db.close()


async def standings(db: Database) -> list[AuthorityStanding]:
    async with db.read(SEES_ALL) as tx:
        return await service.authority_list(tx)


async def states(db: Database, kind: AuthorityKind) -> list[AuthorityState]:
    return [a.standing for a in await standings(db) if a.kind is kind]


async def rotate(db: Database, pki: Pki, kind: RotatedKind, *, distrust_old: bool = False) -> None:
    async with db.transaction(SEES_ALL, "tests") as tx:
        await service.ca_rotate(tx, pki, kind, distrust_old=distrust_old)


async def test_whoever_asks_first_makes_one_root_and_one_intermediate(fresh, pki):
    await asyncio.gather(*(enrolled(fresh, pki) for _ in range(8)))
    assert await states(fresh, K.ROOT) == [AuthorityState.SIGNING]
    assert await states(fresh, K.INTERMEDIATE) == [AuthorityState.SIGNING]


async def test_keys_are_sealed_and_bound_to_their_row(fresh, pki):
    await enrolled(fresh, pki)
    one, other = [a for a in await standings(fresh) if a.kind is not K.CROSS]
    assert b"PRIVATE" not in (one.key_sealed or b"")
    moved = Authority(id=one.id, certificate=one.certificate, key_sealed=other.key_sealed or b"")
    with pytest.raises(ValueError, match="unseal"):
        BuiltInCa(MasterKey(b"m" * 32))._key(moved)
    stranger = Authority(id=one.id, certificate=one.certificate, key_sealed=one.key_sealed or b"")
    with pytest.raises(ValueError, match="unseal"):
        BuiltInCa(MasterKey(b"n" * 32))._key(stranger)


async def test_a_new_intermediate_signs_and_the_old_stays_trusted_while_a_certificate_of_it_lives(fresh, pki):
    old = await enrolled(fresh, pki)
    await rotate(fresh, pki, RotatedKind.INTERMEDIATE)
    assert await states(fresh, K.INTERMEDIATE) == [AuthorityState.SIGNING, AuthorityState.RETIRED]
    new = await enrolled(fresh, pki)
    assert new.leaf.issuer != old.leaf.issuer
    async with fresh.transaction(SEES_ALL, "tests") as tx:
        assert old.node_id is not None
        await service.revoke_node(tx, old.node_id, "gone")
    assert await states(fresh, K.INTERMEDIATE) == [AuthorityState.SIGNING, AuthorityState.GONE]


async def test_a_new_root_is_vouched_for_by_the_old_one(fresh, pki):
    await enrolled(fresh, pki)
    async with fresh.read(SEES_ALL) as tx:
        before = x509.load_pem_x509_certificate((await service.trust(tx))[0].encode())
    await rotate(fresh, pki, RotatedKind.ROOT)
    async with fresh.read(SEES_ALL) as tx:
        trusted = [x509.load_pem_x509_certificate(pem.encode()) for pem in await service.trust(tx)]
    assert len(trusted) == 2
    new = await enrolled(fresh, pki)
    leaf, intermediate, cross = x509.load_pem_x509_certificates(new.chain.encode())
    leaf.verify_directly_issued_by(intermediate)
    intermediate.verify_directly_issued_by(trusted[0])
    intermediate.verify_directly_issued_by(cross)
    cross.verify_directly_issued_by(before)
    assert cross.public_key() == trusted[0].public_key()


async def test_a_distrusted_root_takes_everything_below_with_it(fresh, pki):
    await enrolled(fresh, pki)
    await rotate(fresh, pki, RotatedKind.ROOT)
    await rotate(fresh, pki, RotatedKind.ROOT, distrust_old=True)
    found = await standings(fresh)
    assert [a.standing for a in found if a.kind is K.ROOT].count(AuthorityState.SIGNING) == 1
    assert {a.standing for a in found} == {AuthorityState.SIGNING, AuthorityState.DISTRUSTED}
    async with fresh.read(SEES_ALL) as tx:
        assert len(await service.trust(tx)) == 1


async def test_an_intermediate_near_its_end_is_followed_by_whoever_needs_a_signature(fresh, pki, monkeypatch):
    await enrolled(fresh, pki)
    monkeypatch.setattr(service, "FOLLOWED_AT", service.INTERMEDIATE_LIFE)
    node = await enrolled(fresh, pki)
    assert await states(fresh, K.INTERMEDIATE) == [AuthorityState.SIGNING, AuthorityState.RETIRED]
    newest = x509.load_der_x509_certificate((await standings(fresh))[0].certificate)
    node.leaf.verify_directly_issued_by(newest)


async def test_a_root_that_would_end_before_its_intermediate_is_followed_first(fresh, pki, monkeypatch):
    monkeypatch.setattr(service, "ROOT_LIFE", timedelta(days=200))
    await enrolled(fresh, pki)
    monkeypatch.setattr(service, "ROOT_LIFE", timedelta(days=3650))
    await rotate(fresh, pki, RotatedKind.INTERMEDIATE)
    assert len(await states(fresh, K.ROOT)) >= 2


async def test_no_certificate_outlives_its_authority(fresh, pki, monkeypatch):
    monkeypatch.setattr(service, "INTERMEDIATE_LIFE", timedelta(hours=1))
    monkeypatch.setattr(service, "FOLLOWED_AT", timedelta(0))
    node = await enrolled(fresh, pki)
    authority = next(a for a in await standings(fresh) if a.kind is K.INTERMEDIATE)
    assert node.leaf.not_valid_after_utc <= authority.not_after
    async with fresh.read(SEES_ALL) as tx:
        assert await tx.rows("SELECT * FROM invariant_20_certificates_signed_while_valid") == []


async def test_the_invariant_names_what_was_signed_or_accepted_outside_of_its_time(template):
    async with clone(template) as urls:
        db = Database(urls.app)
        await db.open()
        pki = Pki(ca=BuiltInCa(MasterKey(b"m" * 32)), trust_domain="cloud.example")
        await enrolled(db, pki)
        connection = await asyncpg.connect(urls.superuser)
        look = "SELECT subject, problem FROM invariant_20_certificates_signed_while_valid"
        assert await connection.fetch(look) == []
        await connection.execute("UPDATE certificates SET used_at = not_after + interval '1 hour'")
        assert [row["problem"] for row in await connection.fetch(look)] == ["accepted outside of its time"]
        await connection.execute(
            "UPDATE certificate_authorities SET retired_at = now() - interval '1 hour' WHERE kind = 'intermediate'"
        )
        assert len(await connection.fetch(look)) == 2
        await connection.close()
        await db.close()


async def test_what_ended_long_ago_is_forgotten(db, pki, superuser):
    node = await enrolled(db, pki)
    await superuser.execute(
        "UPDATE certificates SET not_before = now() - interval '3 days', not_after = now() - interval '2 days' "
        "WHERE node_id = $1",
        node.node_id,
    )
    async with db.transaction(SEES_ALL, "tests") as tx:
        assert await service.expired_prune(tx, 3) == 0
        assert await service.expired_prune(tx, 1) == 1
