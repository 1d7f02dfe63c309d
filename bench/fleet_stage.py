"""Where agents are measured: real PostgreSQL and NATS with full durability, the real `gpuaas api` with its agents'
listener, the real `gpuaas worker` with the signing key, and nodes that have been enrolled."""

import asyncio
import base64
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gpuaas.domains.pki import service as pki
from gpuaas.domains.pki.site import Pki
from gpuaas.infra.ca.builtin import BuiltInCa
from gpuaas.infra.embedded.home import make_temporary_directory
from gpuaas.infra.embedded.nats import EmbeddedNats
from gpuaas.infra.embedded.ports import free_port
from gpuaas.infra.embedded.postgres import EmbeddedPostgres
from gpuaas.infra.postgres import migrate
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.ids import new_id
from gpuaas.kit.secrets import MasterKey

READY_SECONDS = 60
FIRST = -10
EVERYTHING = Sight(PLATFORM)
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Program:
    """One of the product's programs, and what it has used."""

    name: str
    url: str
    environment: dict[str, str]
    log: Path
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> "Program":
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gpuaas", self.name], stderr=log, env=os.environ | self.environment
            )
        return self

    def ready(self) -> "Program":
        wait_for(self._answers, f"{self.name} to be ready", lambda: self.log.read_text()[-1000:])
        return self

    def _answers(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(self.url, timeout=2):
            return True
        return False

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(10)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            self.process.kill()


@dataclass
class FleetStage:
    app_url: str
    nats_url: str
    agents_url: str
    folder: Path
    """Certificates and keys of nodes, as the load reads them."""
    postgres_pid: int
    api: Program
    worker: Program
    nodes: list[UUID] = field(default_factory=list)


def wait_for(there: Callable[[], bool], what: str, said: Callable[[], str] = lambda: "") -> None:
    give_up_at = time.monotonic() + READY_SECONDS
    while not there():
        if time.monotonic() > give_up_at:
            raise RuntimeError(f"waited too long for {what}: {said()}")
        time.sleep(0.05)


def cpu_seconds(pid: int) -> float:
    """What a process has computed, in user and kernel mode, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def family_cpu_seconds(pid: int) -> float:
    """Of a process and its living children: PostgreSQL's."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    total = cpu_seconds(pid)
    for child in children:
        with suppress(OSError):
            total += cpu_seconds(int(child))
    return total


def rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


@contextmanager
def _before_the_neighbours() -> Iterator[None]:
    """How soon something happens is measured by the clock: on a machine that others use, what is measured goes first,
    where we may say so. Everything started meanwhile inherits it."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, FIRST)
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, usual)


@contextmanager
def fleet_stage(nodes: int) -> Iterator[FleetStage]:
    with _before_the_neighbours(), _fleet_stage(nodes) as ready:
        yield ready


@contextmanager
def _fleet_stage(nodes: int) -> Iterator[FleetStage]:
    home = make_temporary_directory()
    postgres, nats = EmbeddedPostgres(home), EmbeddedNats(home)
    programs: list[Program] = []
    try:
        urls, nats_url = postgres.start(), nats.start()
        migrate.upgrade(urls.owner, app_role="gpuaas_app")
        port, agents, metrics = free_port(), free_port(), free_port()
        master = base64.b64encode(os.urandom(32)).decode()
        shared = {
            "GPUAAS_DATABASE_URL": urls.app,
            "GPUAAS_NATS_URL": nats_url,
            "GPUAAS_MASTER_KEY": master,
            "GPUAAS_PUBLIC_URL": f"http://127.0.0.1:{port}",
            "GPUAAS_ENVIRONMENT": "demo",
        }
        ours = {"GPUAAS_PORT": str(port), "GPUAAS_AGENT_PORT": str(agents)}
        key = {
            "GPUAAS_METRICS_PORT": str(metrics),
            "GPUAAS_TASK_SIGNING_KEY": base64.b64encode(os.urandom(32)).decode(),
        }
        api = Program("api", f"http://127.0.0.1:{port}/readyz", shared | ours, home / "api.log")
        worker = Program("worker", f"http://127.0.0.1:{metrics}/readyz", shared | key, home / "worker.log")
        programs += [api.start(), worker.start()]
        folder = home / "agents"
        folder.mkdir(mode=0o700)
        ready = FleetStage(urls.app, nats_url, f"https://127.0.0.1:{agents}", folder, _postmaster(home), api, worker)
        ready.nodes = asyncio.run(_enrol(urls.app, master, folder, nodes))
        api.ready()
        worker.ready()
        yield ready
    finally:
        for program in programs:
            program.stop()
        nats.destroy()
        postgres.destroy()
        shutil.rmtree(home, ignore_errors=True)


def _postmaster(home: Path) -> int:
    return int(next(home.rglob("postmaster.pid")).read_text().split()[0])


async def _enrol(app_url: str, master: str, folder: Path, count: int) -> list[UUID]:
    """Nodes in service, with certificates of the product's own authority; how they enrolled is not measured here."""
    db = Database(app_url)
    await db.open()
    site = Pki(ca=BuiltInCa(MasterKey.from_text(master)), trust_domain="gpuaas.internal")
    nodes = [new_id() for _ in range(count)]
    try:
        async with db.transaction(EVERYTHING, "bench") as tx:
            await tx.run(
                "INSERT INTO nodes (id, name, region, sku_id, state, enrolled_at) "
                "SELECT id, 'n-' || id, 'eu', uuidv7(), 'active', now() FROM unnest($1::uuid[]) AS id",
                nodes,
            )
            await tx.run("INSERT INTO task_sequences (node_id) SELECT unnest($1::uuid[])", nodes)
        for number, node_id in enumerate(nodes):
            key = ec.generate_private_key(ec.SECP256R1())
            request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
            async with db.transaction(EVERYTHING, "bench") as tx:
                csr = request.public_bytes(Encoding.PEM).decode()
                issued = await pki.renew(tx, site, node_id, csr, shown="", seconds=86_400)
            plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
            (folder / f"{number}.pem").write_text(issued.chain + plain)
        async with db.read(EVERYTHING) as tx:
            (folder / "ca.pem").write_text("".join(await pki.trust(tx)))
    finally:
        await db.close()
    return nodes
