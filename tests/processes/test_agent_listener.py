"""The agents' listener: who gets in over real TLS, and what is served there."""

import asyncio
import contextlib
import re
import ssl
import warnings
from collections.abc import AsyncIterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import httpx
import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from gpuaas.contracts.http.pki import RotatedKind
from gpuaas.domains.pki import service
from gpuaas.domains.pki.site import Pki
from gpuaas.infra.ca.builtin import BuiltInCa
from gpuaas.infra.embedded.ports import free_port
from gpuaas.infra.http.operation import REGISTRY, Wire
from gpuaas.infra.http.pipeline import Edge
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import clock
from gpuaas.kit.ids import NodeId, new_id
from gpuaas.kit.parts import Parts
from gpuaas.kit.secrets import MasterKey
from gpuaas.ports.ca import Leaf, Usage
from gpuaas.processes.api.agents import HANDSHAKE_SECONDS, ListenerIdentity
from gpuaas.processes.settings import Settings
from tests.support.certificates import (
    SEES_ALL,
    Forger,
    Held,
    authorities,
    client,
    common_name,
    enrolled,
    new_key,
    public,
    request_for,
    trusting,
)
from tests.support.issuer_site import WrittenPolicy
from tests.support.live import api_processes, make_settings, open_rates, serving
from tests.support.people import refusal
from tests.support.servers import DatabaseUrls

__all__ = ["api_processes"]  # a fixture
TRUST_DOMAIN = "cloud.example"
RENEW = "/agent/v1/certificate"
# What a refused handshake looks like: with TLS 1.3 the client hears of it when it first reads.
REFUSED = (ssl.SSLError, httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError)


@dataclass(frozen=True)
class Site:
    settings: Settings
    people: httpx.AsyncClient
    db: Database
    pki: Pki

    @property
    def url(self) -> str:
        return self.settings.agents_url

    async def node(self, **options: Any) -> Held:
        return await enrolled(self.db, self.pki, **options)

    async def client(self, held: Held) -> httpx.AsyncClient:
        return client(self.url, held.context(await authorities(self.db)))

    async def renew(self, held: Held, key: Any = None) -> httpx.Response:
        async with await self.client(held) as asking:
            return await asking.post(RENEW, json={"csr": request_for(key or new_key())})

    async def rotate(self, kind: RotatedKind, *, distrust_old: bool = False) -> None:
        async with self.db.transaction(SEES_ALL, "tests") as tx:
            await service.ca_rotate(tx, self.pki, kind, distrust_old=distrust_old)


@pytest.fixture(scope="module")
async def site(database: DatabaseUrls, nats_url: str, db: Database) -> AsyncIterator[Site]:
    settings = make_settings(database.app, nats_url, agent_port=free_port(), trust_domain=TRUST_DOMAIN)
    await open_rates(database.superuser)
    pki = Pki(ca=BuiltInCa(MasterKey.from_text(settings.master_key)), trust_domain=TRUST_DOMAIN)
    async with serving(settings) as people:
        await _listening(settings.agent_port)
        yield Site(settings, people, db, pki)


async def _listening(port: int) -> None:
    for _ in range(200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
    raise AssertionError("the agents' listener does not listen")


# who gets in ----------------------------------------------------------------------------------------------------------
async def test_a_node_renews_with_its_certificate(site: Site):
    node = await site.node()
    answer = await site.renew(node)
    assert answer.status_code == 201, answer.text
    names = (
        x509.load_pem_x509_certificate(answer.json()["certificate"].encode())
        .extensions.get_extension_for_class(x509.SubjectAlternativeName)
        .value
    )
    assert list(names) == [x509.UniformResourceIdentifier(f"spiffe://{TRUST_DOMAIN}/node/{node.node_id}")]


async def test_without_a_certificate_nobody_gets_in(site: Site):
    async with client(site.url, trusting(await authorities(site.db))) as asking:
        with pytest.raises(REFUSED):
            await asking.post(RENEW, json={})


@pytest.mark.parametrize("who", ["self-signed", "of another authority", "of an authority of our name"])
async def test_certificates_of_others_end_the_handshake(site: Site, who: str):
    node = await site.node()
    name = x509.UniformResourceIdentifier(f"spiffe://{TRUST_DOMAIN}/node/{node.node_id}")
    forger = Forger(issuer=node.leaf.issuer if who.endswith("name") else common_name("else"))
    held = forger.alone(name) if who == "self-signed" else forger.leaf(name, serial=node.leaf.serial_number)
    with pytest.raises(REFUSED):
        await site.renew(held)


async def test_plain_http_and_old_tls_are_not_spoken(site: Site):
    with pytest.raises(REFUSED):
        async with httpx.AsyncClient(trust_env=False) as asking:
            await asking.get(site.url.replace("https", "http"))
    node = await site.node()
    for version, spoken in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
        context = node.context(await authorities(site.db))
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with warnings.catch_warnings(action="ignore"):  # old versions are deprecated: that is the point
            context.minimum_version = context.maximum_version = version
        async with client(site.url, context) as asking:
            if spoken:
                assert (await asking.post(RENEW, json={"csr": request_for(new_key())})).status_code == 201
            else:
                with pytest.raises(REFUSED):
                    await asking.post(RENEW, json={})


async def test_a_server_certificate_is_none_of_a_client(site: Site):
    key = new_key()
    async with site.db.transaction(SEES_ALL, "tests") as tx:
        issued = await service.server_issue(tx, site.pki, ("127.0.0.1",), public(key), seconds=600)
    with pytest.raises(REFUSED):
        await site.renew(Held(issued.chain, key))


async def test_a_nodes_certificate_is_none_of_a_server(site: Site):
    """Who stole one cannot stand between another node and us."""
    thief, victim = await site.node(), await site.node()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    thief.load(context)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    try:
        for checked in (True, False):
            trust = victim.context(await authorities(site.db))
            trust.check_hostname = checked
            with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
                await asyncio.open_connection("127.0.0.1", port, ssl=trust)
    finally:
        server.close()


async def test_the_listener_shows_the_name_agents_know_it_by(site: Site):
    node = await site.node()
    context = node.context(await authorities(site.db))
    async with client(site.url.replace("127.0.0.1", "localhost"), context) as asking:
        with pytest.raises(httpx.ConnectError, match="localhost"):
            await asking.post(RENEW, json={})
    names = (await peer(site, context)).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [x509.IPAddress(ip_address("127.0.0.1"))]


async def test_an_expired_certificate_is_refused_on_new_and_on_open_connections(site: Site):
    node = await site.node(seconds=3)
    async with await site.client(node) as asking:
        assert (await asking.post(RENEW, json={"csr": request_for(new_key())})).status_code == 201
        await asyncio.sleep(3.1)
        late = await asking.post(RENEW, json={"csr": request_for(new_key())})
        assert refusal(late) == (401, "credential_expired")
    with pytest.raises(REFUSED):
        await site.renew(node)


async def test_a_revoked_certificate_is_refused_and_its_connections_are_closed(site: Site):
    node, other = await site.node(), await site.node()
    context = node.context(await authorities(site.db))
    reader, writer = await asyncio.open_connection("127.0.0.1", site.settings.agent_port, ssl=context)
    async with await site.client(node) as asking, await site.client(other) as beside:
        await beside.post(RENEW, json={"csr": request_for(new_key())})
        await asking.post(RENEW, json={"csr": request_for(new_key())})
        async with site.db.transaction(SEES_ALL, "tests") as tx:
            assert node.node_id is not None
            await service.revoke_node(tx, node.node_id, "stolen")
        revoked_at = clock.monotonic()
        assert await asyncio.wait_for(reader.read(), 15) == b""  # within a second, on a machine that is not loaded
        await asyncio.sleep(revoked_at + 1 - clock.monotonic())
        with contextlib.suppress(httpx.ReadError):  # its connection may be cut while it asks
            answer = await asking.post(RENEW, json={"csr": request_for(new_key())})
            assert refusal(answer) == (401, "credential_revoked")
        assert refusal(await site.renew(node)) == (401, "credential_revoked")
        assert (await beside.post(RENEW, json={"csr": request_for(new_key())})).status_code == 201
    writer.close()


async def test_a_renewal_that_asks_to_be_another_stays_itself_and_a_weak_key_is_not_signed(site: Site):
    node, other = await site.node(), await site.node()
    theirs = x509.UniformResourceIdentifier(f"spiffe://{TRUST_DOMAIN}/node/{other.node_id}")
    wanted = request_for(new_key(), str(other.node_id), x509.SubjectAlternativeName([theirs]))
    async with await site.client(node) as asking:
        answer = await asking.post(RENEW, json={"csr": wanted})
        assert answer.status_code == 201, answer.text
        for weak in (rsa.generate_private_key(65537, 1024), ec.generate_private_key(ec.SECP192R1())):
            refused = await asking.post(RENEW, json={"csr": request_for(weak)})
            assert refusal(refused) == (422, "csr_refused")
    leaf = x509.load_pem_x509_certificate(answer.json()["certificate"].encode())
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == [f"spiffe://{TRUST_DOMAIN}/node/{node.node_id}"]
    assert list(leaf.subject) == []


async def test_a_certificate_that_was_replaced_begets_no_other(site: Site):
    """Within its last two minutes it may end what it began; a copy of it makes nobody a node."""
    node, key = await site.node(), new_key()
    first = await site.renew(node, key)
    newer = Held(first.json()["certificate"], key, node.node_id)
    assert (await site.renew(node)).status_code == 201, "the new one was not shown yet"
    assert (await site.renew(newer)).status_code == 201
    async with await site.client(node) as asking:
        assert (await asking.get("/agent/v1/trust")).status_code == 200, "what is under way may end"
        answer = await asking.post(RENEW, json={"csr": request_for(new_key())})
    assert refusal(answer) == (401, "credential_revoked")


@pytest.mark.parametrize(
    "names",
    [
        ("spiffe://cloud.example/node/{id}", "spiffe://cloud.example/node/{other}"),
        ("spiffe://cloud.example/node/{id}", "spiffe://cloud.example/node/{id}"),
        ("spiffe://other.example/node/{id}",),
        ("spiffe://cloud.example/node/{other}",),
        ("spiffe://cloud.example/user/{id}",),
        ("https://cloud.example/node/{id}",),
    ],
    ids=["two nodes", "twice", "another domain", "another node", "another kind", "another scheme"],
)
async def test_even_what_our_authority_signed_must_name_its_node(site: Site, names: tuple[str, ...]):
    node, other, key = await site.node(), new_id(), new_key()
    said = tuple(name.format(id=node.node_id, other=other) for name in names)
    assert node.node_id is not None
    async with site.db.transaction(SEES_ALL, "tests") as tx:
        issued = await service._issue(
            tx, site.pki, Usage.CLIENT, said, public(key), node_id=NodeId(node.node_id), seconds=600
        )
    assert refusal(await site.renew(Held(issued.chain, key))) == (401, "credential_invalid")


async def test_what_our_authority_signed_but_never_issued_names_nobody(site: Site):
    """A stolen intermediate key alone makes no node: every certificate has its row."""
    node, key = await site.node(), new_key()
    assert node.issued is not None
    async with site.db.transaction(SEES_ALL, "tests") as tx:
        authority = await service.signer(tx, site.pki)
        chain = await service._chain(tx, node.issued.certificate)
    der = await site.pki.ca.sign(
        service._held(authority),
        Leaf(
            public_key=public(key),
            usage=Usage.CLIENT,
            names=(f"spiffe://{TRUST_DOMAIN}/node/{node.node_id}",),
            serial=node.leaf.serial_number,
            not_before=node.leaf.not_valid_before_utc,
            not_after=node.leaf.not_valid_after_utc,
        ),
    )
    forged = service.pem(der) + chain.partition("-----END CERTIFICATE-----\n")[2]
    assert refusal(await site.renew(Held(forged, key))) == (401, "credential_invalid")


@pytest.mark.slow
async def test_whoever_connects_and_says_nothing_is_gone_soon(site: Site):
    reader, writer = await asyncio.open_connection("127.0.0.1", site.settings.agent_port)
    started = clock.monotonic()
    assert await asyncio.wait_for(reader.read(), HANDSHAKE_SECONDS + 3) == b""
    assert clock.monotonic() - started > HANDSHAKE_SECONDS - 1
    writer.close()


# what is served -------------------------------------------------------------------------------------------------------
async def test_each_listener_serves_its_own_operations_and_no_others(site: Site):
    node = await site.node()
    nobody = "00000000-0000-0000-0000-000000000000"
    async with await site.client(node) as asking:
        for op in REGISTRY.all():
            path = re.sub(r"\{\w+\}", nobody, op.full_path)
            here, there = (site.people, asking) if op.wire is Wire.AGENT else (asking, site.people)
            assert refusal(await here.request(op.method, path)) == (404, "route_missing"), op.id
            if op.wire is Wire.AGENT:
                assert "route_missing" not in (await there.request(op.method, path, json={})).text, op.id
        for page in ("/", "/healthz", "/readyz", "/metrics", "/api/docs", "/api/openapi.json"):
            assert (await asking.get(page)).status_code == 404, page


async def test_a_bearer_token_is_worth_nothing_to_a_node_and_a_certificate_nothing_to_people(site: Site):
    node = await site.node()
    async with await site.client(node) as asking:
        answer = await asking.get("/api/v1/users/me", headers={"authorization": "Bearer x"})
        assert answer.status_code == 404
    assert (await site.people.post(RENEW, json={"csr": request_for(new_key())})).status_code == 404


# changes while it runs ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", list(RotatedKind))
async def test_a_rotation_drops_nobody(site: Site, kind: RotatedKind):
    node = await site.node()
    before = await authorities(site.db)
    context = node.context(before)
    shown = await peer(site, context)
    async with client(site.url, context) as asking:
        assert (await asking.post(RENEW, json={"csr": request_for(new_key())})).status_code == 201
        await site.rotate(kind)
        await until_changed(site, context, shown)
        key = new_key()
        answer = await asking.post(RENEW, json={"csr": request_for(key)})
        assert answer.status_code == 201, "the open connection goes on"
    assert (await site.renew(node)).status_code == 201, "the old certificate still counts"
    renewed = Held(answer.json()["certificate"], key, node.node_id)
    assert renewed.leaf.issuer != node.leaf.issuer or kind is RotatedKind.INTERMEDIATE
    async with client(site.url, renewed.context(before)) as asking:
        answer = await asking.post(RENEW, json={"csr": request_for(new_key())})
        assert answer.status_code == 201, "who knows only the old root follows"
    assert len(await authorities(site.db)) >= len(before) + (kind is RotatedKind.ROOT)


async def test_rotations_under_load_cost_nobody_an_answer(site: Site):
    """By agents that know the first root only, on open connections and on new ones."""
    nodes, stop = [await site.node() for _ in range(8)], asyncio.Event()
    answers: list[int] = []
    trust = await authorities(site.db)

    async def ask(node: Held) -> None:
        context = node.context(trust)
        while not stop.is_set():
            async with client(site.url, context) as asking:
                answers.extend([(await asking.get("/agent/v1/trust")).status_code for _ in range(4)])

    asking = [asyncio.create_task(ask(node)) for node in nodes]
    for kind in (RotatedKind.INTERMEDIATE, RotatedKind.ROOT, RotatedKind.INTERMEDIATE, RotatedKind.ROOT):
        await asyncio.sleep(0.8)
        await site.rotate(kind)
    await asyncio.sleep(0.8)
    stop.set()
    await asyncio.gather(*asking)
    assert set(answers) == {200}
    assert len(answers) > 100


async def test_what_a_distrusted_authority_signed_counts_no_more(site: Site):
    node = await site.node()
    async with await site.client(node) as asking:
        assert (await asking.post(RENEW, json={"csr": request_for(new_key())})).status_code == 201
        await site.rotate(RotatedKind.INTERMEDIATE, distrust_old=True)
        await asyncio.sleep(1)
        answer = await asking.post(RENEW, json={"csr": request_for(new_key())})
        assert refusal(answer) == (401, "credential_invalid")
    again = await site.node(node_id=node.node_id)
    assert (await site.renew(again)).status_code == 201


async def test_after_a_distrusted_root_old_certificates_end_the_handshake(site: Site):
    node, context = await site.node(), trusting(await authorities(site.db))
    node.load(context)
    shown = await peer(site, context)
    await site.rotate(RotatedKind.ROOT, distrust_old=True)
    fresh = await site.node()
    await until_changed(site, fresh.context(await authorities(site.db)), shown)
    with pytest.raises(REFUSED):
        await site.renew(node)
    assert (await site.renew(fresh)).status_code == 201


async def test_the_listener_renews_its_own_certificate(site: Site, db: Database):
    nobody: Any = None  # logs in here
    edge = Edge(db=db, authority=nobody, policy=WrittenPolicy(), cursor_key=b"", parts=Parts(site.pki))
    identity = ListenerIdentity(edge)
    await identity.refresh()
    first = identity._renew_after
    await identity.refresh()
    assert identity._renew_after == first
    identity._renew_after = clock.now()
    await asyncio.sleep(1)
    await identity.refresh()
    assert identity._renew_after > first


# the program ----------------------------------------------------------------------------------------------------------
async def test_the_program_stops_in_time_while_agents_wait(site: Site, api_processes: Any):
    port = free_port()
    settings = msgspec.structs.replace(
        site.settings, port=port, public_url=f"http://127.0.0.1:{port}", agent_port=free_port()
    )
    process = api_processes(settings)
    process.start()
    await process.ready()
    await _listening(settings.agent_port)
    trust = await authorities(site.db)
    waiting = []
    for _ in range(3):
        node = await site.node()
        reader, writer = await asyncio.open_connection("127.0.0.1", settings.agent_port, ssl=node.context(trust))
        body = b'{"next_sequence":1,"wait_seconds":30}'
        writer.write(
            b"POST /agent/v1/claim HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%s" % (len(body), body)
        )
        waiting.append((reader, writer))
    await asyncio.sleep(1)
    assert all(not reader.at_eof() for reader, _ in waiting)
    started = clock.monotonic()
    assert await asyncio.to_thread(process.terminate) == 0
    assert clock.monotonic() - started < 10
    for _, writer in waiting:
        writer.transport.abort()


async def test_a_port_in_use_is_said_in_one_line(site: Site, api_processes: Any):
    settings = msgspec.structs.replace(site.settings, port=free_port())
    process = api_processes(settings)
    process.start()
    assert await asyncio.to_thread(process._process.wait, 20) == 1
    wanted = f"gpuaas api: cannot listen on 127.0.0.1 port {settings.agent_port}: Address already in use\n"
    assert process.log == wanted


async def peer(site: Site, context: ssl.SSLContext) -> x509.Certificate:
    """The certificate the listener shows now."""
    _, writer = await asyncio.open_connection("127.0.0.1", site.settings.agent_port, ssl=context)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return x509.load_der_x509_certificate(der)


async def until_changed(site: Site, context: ssl.SSLContext, before: x509.Certificate) -> None:
    for _ in range(60):
        try:
            if (await peer(site, context)).serial_number != before.serial_number:
                return
        except ssl.SSLError:
            pass
        await asyncio.sleep(0.05)
    raise AssertionError("the listener did not follow the rotation within 3 s")
