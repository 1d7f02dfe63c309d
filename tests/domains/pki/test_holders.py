"""From a certificate to its node: cached for less than a second, and closed when in doubt."""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

import pytest

from gpuaas.contracts.actor import ActorKind
from gpuaas.contracts.http.pki import RotatedKind
from gpuaas.domains.pki import service
from gpuaas.domains.pki.agents.service import CertificateHolders
from gpuaas.domains.pki.site import Pki
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import clock
from gpuaas.kit.errors import Denied, Unauthenticated, Unavailable
from gpuaas.kit.ids import floor_id, new_id
from tests.support.certificates import SEES_ALL, Forger, Held, enrolled, new_key, request_for
from tests.support.issuer_site import WrittenPolicy


class Register:
    """Which nodes may speak, and how often that was asked."""

    def __init__(self) -> None:
        self.disabled: set[UUID] = set()
        self.asked = 0

    async def __call__(self, tx: Tx, nodes: Collection[UUID]) -> Collection[UUID]:
        self.asked += 1
        return self.disabled.intersection(nodes)


@pytest.fixture
def register() -> Register:
    return Register()


@pytest.fixture
def policy() -> WrittenPolicy:
    return WrittenPolicy()


@pytest.fixture
def holders(db: Database, register: Register, policy: WrittenPolicy) -> CertificateHolders:
    return CertificateHolders(db, policy, trust_domain="cloud.example", refused=register)


async def code_of(holders: CertificateHolders, certificate: bytes | None) -> str:
    with pytest.raises(Unauthenticated) as refused:
        await holders.node(certificate)
    return refused.value.code


async def renewed(db: Database, pki: Pki, node: Held) -> Held:
    key = new_key()
    assert node.node_id is not None
    assert node.issued is not None
    shown = node.issued.certificate.serial
    async with db.transaction(SEES_ALL, "tests") as tx:
        issued = await service.renew(tx, pki, node.node_id, request_for(key), shown=shown, seconds=3600)
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
    replicas = [CertificateHolders(db, policy, trust_domain="cloud.example", refused=register) for _ in range(3)]
    for replica in replicas:
        await replica.node(node.der)
    async with db.transaction(SEES_ALL, "tests") as tx:
        assert node.node_id is not None
        await service.revoke_node(tx, node.node_id, "stolen")
    await asyncio.sleep(1)
    assert [await code_of(replica, node.der) for replica in replicas] == ["credential_revoked"] * 3


async def test_those_who_spoke_lately_are_kept_by_one_question_for_all(db, pki, holders, register):
    nodes = [await enrolled(db, pki) for _ in range(20)]
    for node in nodes:
        await holders.node(node.der)
    register.asked = 0
    for _ in range(4):  # longer than anything is remembered without a look
        await asyncio.sleep(0.3)
        await holders.look()
    for node in nodes:
        await holders.node(node.der)
    assert register.asked == 4


@pytest.mark.parametrize("why", ["revoked", "disabled", "distrusted", "replaced"])
async def test_who_has_fallen_is_refused_after_the_next_look_and_hears_why(db, pki, holders, register, policy, why):
    node, other = await enrolled(db, pki), await enrolled(db, pki)
    await holders.node(node.der)
    await holders.node(other.der)
    said = await fell(db, pki, holders, register, policy, node, why)
    await holders.look()
    with pytest.raises((Unauthenticated, Denied)) as refused:
        await holders.node(node.der)
    assert refused.value.code == said
    if why != "distrusted":
        await holders.node(other.der)


async def fell(db, pki, holders, register, policy, node, why) -> str:
    """Make it so; the code it is refused with."""
    if why == "disabled":
        register.disabled.add(node.node_id)
        return "account_disabled"
    if why == "replaced":
        policy.values["pki.superseded_seconds"] = 0
        await holders.node((await renewed(db, pki, node)).der)
        await asyncio.sleep(0.01)
        return "credential_revoked"
    async with db.transaction(SEES_ALL, "tests") as tx:
        if why == "distrusted":
            await service.ca_rotate(tx, pki, RotatedKind.INTERMEDIATE, distrust_old=True)
            return "credential_invalid"
        await service.revoke_node(tx, node.node_id, "stolen")
    return "credential_revoked"


async def test_what_was_refused_while_others_were_asked_about_is_not_kept(db, pki, holders, register):
    node = await enrolled(db, pki)
    await holders.node(node.der)

    class Meanwhile(Register):
        """Asked for all, somebody is refused by a request of his own before the answer is there."""

        async def __call__(self, tx: Tx, nodes: Collection[UUID]) -> Collection[UUID]:
            holders._refused = register
            register.disabled.add(node.node_id)
            await asyncio.sleep(1)
            with pytest.raises(Denied):
                await holders.node(node.der)
            return set()

    holders._refused = Meanwhile()
    await holders.look()
    with pytest.raises(Denied):
        await holders.node(node.der)


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


async def test_a_newer_certificate_replaces_the_older_whatever_the_clocks_of_replicas_say(db, pki, holders, superuser):
    """The replica that renewed it is an hour behind: its ids are smaller."""
    node = await enrolled(db, pki)
    newer = await renewed(db, pki, node)
    assert newer.issued is not None
    behind = floor_id(clock.now() - timedelta(hours=1))
    await superuser.execute("UPDATE certificates SET id = $1 WHERE id = $2", behind, newer.issued.certificate.id)
    await holders.node(newer.der)
    rows = await superuser.fetch(
        "SELECT id = $2 AS newer, superseded_at IS NULL AS live FROM certificates WHERE node_id = $1",
        node.node_id,
        behind,
    )
    assert {(row["newer"], row["live"]) for row in rows} == {(True, True), (False, False)}


async def test_without_a_database_nobody_gets_in(database, db, pki, register, policy):
    node = await enrolled(db, pki)
    away = Database(database.app)
    await away.open()
    holders = CertificateHolders(away, policy, trust_domain="cloud.example", refused=register)
    await holders.node(node.der)
    await away.close()
    await asyncio.sleep(1)
    with pytest.raises(Unavailable):
        await holders.node(node.der)


async def test_another_installations_certificates_are_refused(db, pki, register, policy):
    node = await enrolled(db, pki)
    elsewhere = CertificateHolders(db, policy, trust_domain="other.example", refused=register)
    assert await code_of(elsewhere, node.der) == "credential_invalid"


async def test_one_nodes_certificate_is_never_another_node(db, pki, holders):
    nodes = [await enrolled(db, pki) for _ in range(5)]
    assert [(await holders.node(node.der)).id for node in nodes] == [node.node_id for node in nodes]
    assert new_id() not in {node.node_id for node in nodes}
