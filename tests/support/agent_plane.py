"""A control plane as agents see it: a real TLS server with client certificates, speaking `contracts.http.agent`. It can
be as honest or as hostile as a test wants."""

import asyncio
import base64
import contextlib
import ipaddress
import os
import ssl
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import h11
import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from gpuaas.contracts.http.agent import (
    CertificateView,
    Claim,
    Claimed,
    Desired,
    Enrol,
    Enrolled,
    Heartbeat,
    Renew,
    TaskKeyView,
    TellFaults,
    TellMetrics,
    TellPhases,
    TrustView,
)
from gpuaas.contracts.tasks.base import PAYLOAD_TYPE, Order, Report, Task
from gpuaas.contracts.tasks.keys import STATEMENT_TYPE, KeyStatement
from gpuaas.kit import clock, dsse
from gpuaas.kit.ids import new_id
from gpuaas.processes.agent.enrolment import keep
from gpuaas.processes.agent.identity import keep_identity, make_request, read_enrolment
from gpuaas.processes.agent.state_directory import StateDirectory


class Authority:
    """A certificate authority; `by` another: certified by it."""

    def __init__(self, name: str, by: "Authority | None" = None) -> None:
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self.certify(by or self)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def certify(self, by: "Authority") -> x509.Certificate:
        return (
            _builder(self.name, by.name, self.key.public_key(), timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(by.key, hashes.SHA256())
        )

    def issue(self, csr: str, node_id: UUID, life: timedelta) -> tuple[str, x509.Certificate]:
        request = x509.load_pem_x509_csr(csr.encode())
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"spiffe://test/node/{node_id}")])
        builder = _builder(request.subject, self.name, request.public_key(), life)
        certificate = builder.add_extension(names, critical=False).sign(self.key, hashes.SHA256())
        return certificate.public_bytes(Encoding.PEM).decode(), certificate

    def serve(self, folder: Path, host: str = "127.0.0.1") -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host)), x509.DNSName("localhost")])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "api")])
        certificate = (
            _builder(subject, self.name, key.public_key(), timedelta(days=1))
            .add_extension(names, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        chain, secret = folder / f"server-{uuid4().hex}.pem", folder / f"server-{uuid4().hex}.key"
        chain.write_bytes(certificate.public_bytes(Encoding.PEM))
        secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return chain, secret


def _builder(subject: x509.Name, issuer: x509.Name, key: Any, life: timedelta) -> x509.CertificateBuilder:
    now = clock.now()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(seconds=1))
        .not_valid_after(now + life)
    )


class TaskKey:
    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        self.key = Ed25519PrivateKey.generate()

    @property
    def view(self) -> TaskKeyView:
        raw = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return TaskKeyView(key_id=self.key_id, public_key=base64.b64encode(raw).decode())

    def names(self, other: "TaskKey") -> str:
        statement = KeyStatement(
            key_id=other.key_id, public_key=other.view.public_key, previous_key_id=self.key_id, issued_at=clock.now()
        )
        return dsse.seal(STATEMENT_TYPE, msgspec.json.encode(statement), self.key_id, self.key).decode()


class PlaneNode:
    """What the control plane knows of one node."""

    def __init__(self) -> None:
        self.envelopes: list[tuple[int, str]] = []
        self.sequence = 0
        self.cancelled: list[UUID] = []
        self.woken = asyncio.Event()
        self.serials: list[int] = []
        self.beats: list[Heartbeat] = []
        self.claims: list[Claim] = []
        self.claimed_at: dict[int, float] = {}
        self.results: dict[UUID, list[Report]] = defaultdict(list)
        self.phases: dict[UUID, list[str]] = defaultdict(list)
        self.faults: list[Any] = []
        self.batches: dict[UUID, int] = {}
        self.desired = Desired(generation=0, cordoned=False, drained=False, heartbeat_seconds=1.0)


class Plane:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority("root")
        self.task_key = TaskKey("task-1")
        self.trust = TrustView(authorities=[self.authority.pem], task_keys=[self.task_key.view])
        self.nodes: dict[UUID, PlaneNode] = defaultdict(PlaneNode)
        self.life = timedelta(hours=24)
        self.artifacts: dict[UUID, bytes] = {}
        self.tokens: dict[str, UUID] = {}
        self.names: dict[UUID, str] = {}
        self.port = self.http_port = 0
        self.resend = False
        """Hand over every envelope again, whatever was claimed."""
        self.refuse_with = self.refuse_results_with = 0
        self.refused_results: set[UUID] = set()
        self.connections = 0
        self._servers: list[asyncio.Server] = []
        self._writers: set[asyncio.StreamWriter] = set()

    # up and down -----------------------------------------------------------------------------------------------------
    async def start(self) -> "Plane":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.authority.serve(self.folder))
        context.load_verify_locations(cadata=self.authority.pem)
        context.verify_mode = ssl.CERT_REQUIRED
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=context)
        plain = await asyncio.start_server(self._serve, "127.0.0.1", self.http_port)
        self.port, self.http_port = (one.sockets[0].getsockname()[1] for one in (server, plain))
        self._servers = [server, plain]
        return self

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    # people's side ---------------------------------------------------------------------------------------------------
    def enrolled(self, csr: str, node_id: UUID, name: str) -> Enrolled:
        return Enrolled(
            node_id=node_id, name=name, agent_url=self.url, certificate=self.certify(csr, node_id), trust=self.trust
        )

    def certify(self, csr: str, node_id: UUID) -> CertificateView:
        pem, certificate = self.authority.issue(csr, node_id, self.life)
        self.nodes[node_id].serials.append(certificate.serial_number)
        end = certificate.not_valid_after_utc
        return CertificateView(
            certificate=pem, serial=f"{certificate.serial_number:x}", not_after=end, renew_after=end - self.life / 2
        )

    def certify_anew(self, state: StateDirectory) -> None:
        """Give a node that does not run a certificate of the life that is given now."""
        node_id, request = read_enrolment(state).node_id, make_request("anew")
        keep_identity(state, node_id, request.key, self.certify(request.csr, node_id).certificate)

    def make_node(self, path: Path, name: str = "node-1") -> UUID:
        """A state directory as enrolment leaves it."""
        node_id, request = new_id(), make_request(name)
        keep(StateDirectory.make(path), "test", request.key, self.enrolled(request.csr, node_id, name))
        return node_id

    def seal(self, order: Order, key: TaskKey | None = None) -> str:
        key = key or self.task_key
        return dsse.seal(PAYLOAD_TYPE, msgspec.json.encode(order), key.key_id, key.key).decode()

    def order(self, to: UUID, task: Task, sequence: int, **changes: Any) -> Order:
        now = clock.now()
        made: dict[str, Any] = {
            "task_id": new_id(),
            "type": task.TYPE,
            "version": task.VERSION,
            "node_id": to,
            "subject_id": None,
            "sequence": sequence,
            "issued_at": now,
            "expires_at": now + timedelta(minutes=10),
            "deadline_seconds": task.DEADLINE_SECONDS,
            "correlation_id": "c",
            "traceparent": "",
            "arguments": msgspec.Raw(msgspec.json.encode(task)),
        }
        return Order(**(made | changes))

    def give(self, to: UUID, task: Task, **changes: Any) -> UUID:
        node = self.nodes[to]
        node.sequence += 1
        order = self.order(to, task, node.sequence, **changes)
        self.give_envelope(to, node.sequence, self.seal(order))
        return order.task_id

    def give_envelope(self, node_id: UUID, sequence: int, envelope: str) -> None:
        node = self.nodes[node_id]
        node.envelopes.append((sequence, envelope))
        node.woken.set()

    async def result(self, node_id: UUID, task_id: UUID, seconds: float = 30.0) -> Report:
        await until(lambda: bool(self.nodes[node_id].results[task_id]), seconds, "a result")
        return self.nodes[node_id].results[task_id][0]

    # agents' side ----------------------------------------------------------------------------------------------------
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.connections += 1
        http = h11.Connection(h11.SERVER)
        try:
            while True:
                request, body = await _request(http, reader)
                if request is None:
                    return
                status, answer = await self._answer(request, body, writer.get_extra_info("ssl_object"))
                head = h11.Response(status_code=status, headers=[("content-length", str(len(answer)))])
                parts = [http.send(head), http.send(h11.Data(data=answer)), http.send(h11.EndOfMessage())]
                writer.write(b"".join(part or b"" for part in parts))
                await writer.drain()
                http.start_next_cycle()
        except (OSError, h11.ProtocolError, ssl.SSLError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _answer(self, request: h11.Request, body: bytes, tls: Any) -> tuple[int, bytes]:
        path = request.target.decode()
        if path == "/api/v1/nodes/enrol":
            wanted = msgspec.json.decode(body, type=Enrol)
            node_id = self.tokens.pop(wanted.token, None)
            if node_id is None:
                return 401, _error("enrolment_token_invalid")
            return 201, msgspec.json.encode(self.enrolled(wanted.csr, node_id, self.names.get(node_id, "printed")))
        certificate = x509.load_der_x509_certificate(tls.getpeercert(binary_form=True))
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        node_id = UUID(names.get_values_for_type(x509.UniformResourceIdentifier)[0].rpartition("/")[2])
        if self.refuse_with:
            return self.refuse_with, _error("refused")
        return await self._agent(path.removeprefix("/agent/v1"), body, node_id, self.nodes[node_id])

    async def _agent(self, path: str, body: bytes, node_id: UUID, node: PlaneNode) -> tuple[int, bytes]:
        kind, _, rest = path.strip("/").partition("/")
        if kind == "claim":
            return 200, msgspec.json.encode(await self._claim(msgspec.json.decode(body, type=Claim), node))
        if kind == "heartbeat":
            node.beats.append(msgspec.json.decode(body, type=Heartbeat))
            return 200, msgspec.json.encode(node.desired)
        if kind == "certificate":
            return 200, msgspec.json.encode(self.certify(msgspec.json.decode(body, type=Renew).csr, node_id))
        if kind == "trust":
            return 200, msgspec.json.encode(self.trust)
        if kind == "artifacts":
            return (200, self.artifacts[UUID(rest)]) if UUID(rest) in self.artifacts else (404, _error("missing"))
        if kind == "faults":
            node.faults += msgspec.json.decode(body, type=TellFaults).faults
        elif kind == "metrics":
            batch = msgspec.json.decode(body, type=TellMetrics)
            node.batches[batch.batch_id] = len(batch.samples)
        elif kind == "tasks":
            task_id, _, what = rest.partition("/")
            if what == "phases":
                told = msgspec.json.decode(body, type=TellPhases).phases
                node.phases[UUID(task_id)] += [phase.name for phase in told]
            elif self.refuse_results_with:
                self.refused_results.add(UUID(task_id))
                return self.refuse_results_with, _error("refused")
            else:
                node.results[UUID(task_id)].append(msgspec.json.decode(body, type=Report))
        return 200, b'{"done":true}'

    async def _claim(self, claim: Claim, node: PlaneNode) -> Claimed:
        node.claims.append(claim)
        until_at = clock.monotonic() + claim.wait_seconds
        while True:
            node.woken.clear()
            ready = [text for sequence, text in node.envelopes if self.resend or sequence >= claim.next_sequence]
            left = until_at - clock.monotonic()
            if ready or node.cancelled or left <= 0:
                cancelled, node.cancelled = node.cancelled, []
                return Claimed(envelopes=ready[:20], cancelled=cancelled)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(node.woken.wait(), left)


async def _request(http: h11.Connection, reader: asyncio.StreamReader) -> tuple[h11.Request | None, bytes]:
    request, body = None, b""
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return request, body
        else:
            return None, b""


def _error(code: str) -> bytes:
    return msgspec.json.encode({"error": {"code": code, "message": code, "correlation_id": "", "details": []}})


async def until(true: Any, seconds: float, what: str) -> None:
    """Wait until it holds; fail when it does not in time."""
    give_up_at = clock.monotonic() + seconds
    while not true():
        assert clock.monotonic() < give_up_at, f"{what} did not come within {seconds} s"
        await asyncio.sleep(0.02)


def rss_bytes(pid: int | None = None) -> int:
    return int(Path(f"/proc/{pid or os.getpid()}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
