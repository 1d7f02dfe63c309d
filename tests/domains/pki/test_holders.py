"""From a certificate to its node: cached for less than a second, and closed when in doubt."""

import asyncio
from contextlib import suppress
from uuid import UUID

import pytest

from gpuaas.contracts.actor import ActorKind
from gpuaas.domains.pki import service
from gpuaas.domains.pki.agents.service import CertificateHolders
from gpuaas.domains.pki.site import Pki
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Denied, Unauthenticated, Unavailable
from gpuaas.kit.ids import new_id
from tests.support.certificates import SEES_ALL, Forger, Held, enrolled, new_key, request_for
from tests.support.issuer_site import WrittenPolicy


class Register:
    """Which nodes may speak, and how often that was asked."""

    def __init__(self) -> None:
        self.disabled: set[UUID] = set()
        self.asked = 0

    async def __call__(self, tx: Tx, node_id: UUID) -> bool:
        self.asked += 1
        return node_id not in self.disabled


@pytest.fixture
def register() -> Register:
    return Register()


@pytest.fixture
def policy() -> WrittenPolicy:
    return WrittenPolicy()


@pytest.fixture
def holders(db: Database, register: Register, policy: WrittenPolicy) -> CertificateHolders:
    return CertificateHolders(db, policy, trust_domain="cloud.example", allowed=register)


async def code_of(holders: CertificateHolders, certificate: bytes | None) -> str:
    with pytest.raises(Unauthenticated) as refused:
        await holders.node(certificate)
    return refused.value.code


async def renewed(db: Database, pki: Pki, node: Held) -> Held:
    key = new_key()
    assert node.node_id is not None
    async with db.transaction(SEES_ALL, "tests") as tx:
        issued = await service.renew(tx, pki, node.node_id, request_for(key), seconds=3600)
    return Held(issued.chain, key, node.node_id, issued)


async def test_a_certificate_is_its_node(db, pki, holders):
    node = await enrolled(db, pki)
    actor = await holders.node(node.der)
    assert (actor.kind, actor.id) == (ActorKind.NODE, node.node_id)
    assert actor.credential_id == f"{node.leaf.serial_number:032x}"
    assert not actor.platform_roles
    assert not actor.org_roles


async def test_many_requests_read_once_a_second(db, pki, holders, register):
    node = await enrolled(db, pki)
    await asyncio.gather(*(holders.node(node.der) for _ in range(50)))
    assert register.asked == 1
    await asyncio.sleep(1)
    await holders.node(node.der)
    assert register.asked == 2


async def test_revoked_on_one_replica_refused_within_a_second_on_all(db, pki, register, policy):
    node = await enrolled(db, pki)
    replicas = [CertificateHolders(db, policy, trust_domain="cloud.example", allowed=register) for _ in range(3)]
    for replica in replicas:
        await replica.node(node.der)
    async with db.transaction(SEES_ALL, "tests") as tx:
        assert node.node_id is not None
        await service.revoke_node(tx, node.node_id, "stolen")
    await asyncio.sleep(1)
    assert [await code_of(replica, node.der) for replica in replicas] == ["credential_revoked"] * 3


async def test_a_node_that_is_disabled_is_denied_and_heard_again_at_once_when_enabled(db, pki, holders, register):
    node = await enrolled(db, pki)
    register.disabled.add(node.node_id)
    with pytest.raises(Denied):
        await holders.node(node.der)
    register.disabled.clear()
    await holders.node(node.der)


async def test_an_expired_certificate_is_refused_even_from_the_cache(db, pki, holders):
    node = await enrolled(db, pki, seconds=2)
    await holders.node(node.der)
    await asyncio.sleep(1.3)
    with suppress(Unauthenticated):
        await holders.node(node.der)  # cached anew, shortly before its end
    await asyncio.sleep(0.75)
    assert await code_of(holders, node.der) == "credential_expired"


async def test_none_and_what_we_never_issued_are_refused(db, pki, holders):
    node = await enrolled(db, pki)
    assert await code_of(holders, None) == "credential_missing"
    assert await code_of(holders, b"") == "credential_invalid"
    assert await code_of(holders, Forger().leaf(serial=node.leaf.serial_number).der) == "credential_invalid"
    changed = bytearray(node.der)
    changed[-1] ^= 1
    assert await code_of(holders, bytes(changed)) == "credential_invalid"


async def test_the_old_certificate_counts_until_the_new_one_was_shown_and_a_while_longer(db, pki, holders, policy):
    node = await enrolled(db, pki)
    policy.values["pki.superseded_seconds"] = 1
    newer = await renewed(db, pki, node)
    await asyncio.sleep(1)
    await holders.node(node.der)
    await holders.node(newer.der)
    await holders.node(node.der)
    await asyncio.sleep(2)
    assert await code_of(holders, node.der) == "credential_revoked"
    await holders.node(newer.der)


async def test_without_a_database_nobody_gets_in(database, db, pki, register, policy):
    node = await enrolled(db, pki)
    away = Database(database.app)
    await away.open()
    holders = CertificateHolders(away, policy, trust_domain="cloud.example", allowed=register)
    await holders.node(node.der)
    await away.close()
    await asyncio.sleep(1)
    with pytest.raises(Unavailable):
        await holders.node(node.der)


async def test_another_installations_certificates_are_refused(db, pki, register, policy):
    node = await enrolled(db, pki)
    elsewhere = CertificateHolders(db, policy, trust_domain="other.example", allowed=register)
    assert await code_of(elsewhere, node.der) == "credential_invalid"


async def test_one_nodes_certificate_is_never_another_node(db, pki, holders):
    nodes = [await enrolled(db, pki) for _ in range(5)]
    assert [(await holders.node(node.der)).id for node in nodes] == [node.node_id for node in nodes]
    assert new_id() not in {node.node_id for node in nodes}
