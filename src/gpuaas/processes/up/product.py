"""One run of the product: what is started in which order, and stopped in which.

Stopping undoes exactly what was started, however far the start came.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from gpuaas.infra.embedded.child import Identity, identify, spawn
from gpuaas.infra.embedded.logs import last_lines, open_log
from gpuaas.infra.embedded.ports import LOOPBACK, free_port
from gpuaas.processes.up.data_directory import DataDirectory
from gpuaas.processes.up.environment import (
    Address,
    choose_address,
    for_worker,
    program_environment,
    read_given,
    with_health_port,
)
from gpuaas.processes.up.errors import UpError
from gpuaas.processes.up.fleet import FLEET, fleet_programs
from gpuaas.processes.up.options import Options
from gpuaas.processes.up.payments import (
    DEMO,
    PORT_FILE,
    WEBHOOKS,
    DemoProvider,
    Payments,
    choose_payments,
    demo_program,
)
from gpuaas.processes.up.program import gpuaas_program
from gpuaas.processes.up.ready_file import ReadyFile
from gpuaas.processes.up.report import Report
from gpuaas.processes.up.run_record import end_last_run, save_run
from gpuaas.processes.up.seed import Login, demo_logins
from gpuaas.processes.up.servers import Servers, ServerUrls, migrate
from gpuaas.processes.up.supervisor import Part, Supervisor, exited
from gpuaas.processes.up.together import together

PROGRAMS = ("api", "relay", "worker")
SERVERS = ("nats", "postgres")
AGENT_PORT_FILE = "agent_port"
STOPPING_ORDER = ("api", DEMO, WEBHOOKS, "worker", "relay", *SERVERS)
"""After the fleet, which is to be seen leaving."""


class Product:
    """PostgreSQL, NATS, the schema, the programs and the demo, from `start` to `stop`."""

    def __init__(self, options: Options, environ: Mapping[str, str], data: DataDirectory, report: Report) -> None:
        self._options = options
        self._environ = environ
        self._data = data
        self._report = report
        self._ready_file = ReadyFile(options.ready_file)
        self._record = data.path / "run.json"
        self._given = read_given(environ, data.master_key)
        # With somebody else's issuer there is nobody here whose password we could set.
        self._demo = options.demo and self._given.settings.builtin_issuer
        self._fleet = options.fleet if self._demo else 0
        self._worker_ready = asyncio.Event()
        self._payments = Payments()
        self._servers = Servers(self._given, data.path)
        self.supervisor = Supervisor(report.trouble, self._processes_changed)

    async def start(self) -> tuple[str, list[Login]]:
        """Returns once everything is ready: where it is, and who can log in."""
        self._ready_file.clear()
        logins = demo_logins(self._data.path) if self._demo else []
        left = await asyncio.to_thread(end_last_run, self._record)
        if left:
            self._report.trouble(f"ended {', '.join(left)}, left running by an earlier start")
        address = choose_address(
            self._given, self._options.port, self._data.last_port(), self._data.last_port(AGENT_PORT_FILE)
        )
        if address.remark:
            self._report.trouble(address.remark)
        self._payments = choose_payments(self._given, address, self._data)
        urls = await self._servers.start(self.supervisor, self._report)
        async with self._report.step("database") as remarks:
            remarks.append(await migrate(urls))
        health = await self._start_programs(urls, address)
        self._data.keep_port(address.port)
        self._data.keep_port(address.agent_port, AGENT_PORT_FILE)
        if self._payments.demo:
            self._data.keep_port(self._payments.demo.port, PORT_FILE)
        self._ready_file.write(self._ready(urls, address, logins, health))
        return address.public_url, logins

    async def stop(self, force: asyncio.Event) -> None:
        """End everything in order; at once when forced."""
        self._ready_file.remove()
        await self.supervisor.stop([name for name in self.supervisor.processes() if name.startswith(FLEET)], force)
        await self.supervisor.stop(STOPPING_ORDER, force)
        self._servers.release()
        self._record.unlink(missing_ok=True)

    async def _start_programs(self, urls: ServerUrls, address: Address) -> dict[str, str]:
        """Start the programs and the demo side by side; the base URL of each program's health."""
        env = program_environment(
            self._environ,
            self._given,
            address,
            database_url=urls.database,
            nats_url=urls.nats,
            objects_url=self._data.objects_url,
        )
        payments = self._payments
        health, taken = {"api": address.local_url}, {address.port, address.agent_port, payments.webhooks_port}
        if payments.demo:
            taken.add(payments.demo.port)
        work = [self._start_program("api", payments.asking(env), address.local_url)]
        for name in PROGRAMS[1:]:
            port = free_port(taken=frozenset(taken))
            taken.add(port)
            health[name] = f"http://{LOOPBACK}:{port}"
            own = (
                payments.asking(for_worker(env, self._given, self._data.task_signing_key)) if name == "worker" else env
            )
            work.append(self._start_program(name, with_health_port(own, port), health[name]))
        if payments.webhooks_port:
            health[WEBHOOKS] = payments.webhooks_url
            work.append(self._start_program(WEBHOOKS, payments.believing(env), payments.webhooks_url))
        if payments.demo:
            health[DEMO] = payments.demo.local_url
            work.append(self._start_payments(payments.demo))
        if self._demo:
            work.append(self._start_demo(env, address))
        await together(*work)
        return health

    async def _start_payments(self, demo: DemoProvider) -> None:
        """Ours, where no money moves."""
        program = demo_program(self._payments, demo, self._data.path, self._environ, self._data.logs)
        async with self._report.step("payments") as remarks:
            await self.supervisor.start(program)
            remarks.append("a demo: no money moves")

    async def _start_demo(self, env: Mapping[str, str], address: Address) -> None:
        """The fleet finds the API by itself; but nodes enrolled before a worker has a key would trust nobody."""
        await self._seed(env)
        if self._fleet:
            await self._worker_ready.wait()
            await self._start_fleet(address)

    async def _start_fleet(self, address: Address) -> None:
        programs = fleet_programs(self._fleet, self._data.path, address.local_url, self._environ, self._data.logs)
        async with self._report.step(FLEET) as remarks:
            await together(*(self._start_part(program) for program in programs))
            remarks.append(f"{self._fleet} simulated nodes")

    async def _start_part(self, part: Part) -> None:
        await self.supervisor.start(part)

    async def _start_program(self, name: str, env: Mapping[str, str], health: str) -> None:
        async with self._report.step(name):
            await self.supervisor.start(gpuaas_program(name, env, f"{health}/readyz", self._data.logs))
        if name == "worker":
            self._worker_ready.set()

    async def _seed(self, env: Mapping[str, str]) -> None:
        argv = [sys.executable, "-m", "gpuaas", "up", "--data-dir", str(self._data.path), "--seed-only"]
        argv += ["--fleet", str(self._fleet)]
        log = open_log(self._data.logs, "seed")
        async with self._report.step("demo"):
            child = spawn(argv, log=log, cwd=Path.cwd(), env=env)
            try:
                code = await exited(child)
            finally:
                child.kill()
        if code != 0:
            raise UpError(f"the demo could not be made (exit {code}); {log} ends with:", last_lines(log, 8))

    def _ready(
        self, urls: ServerUrls, address: Address, logins: list[Login], health: Mapping[str, str]
    ) -> dict[str, object]:
        return {
            "url": address.public_url,
            "api_url": f"{address.public_url}/api/v1",
            "logins": [{"role": one.role, "email": one.email, "password": one.password} for one in logins],
            **self._processes(),
            "health_urls": dict(health),
            **self._ready_payments(),
            "data_dir": str(self._data.path),
            "logs_dir": str(self._data.logs),
            "database_url": urls.database,
            "database_owner_url": urls.database_owner,
            "nats_url": urls.nats,
        }

    def _ready_payments(self) -> dict[str, object]:
        demo = self._payments.demo
        return {"demo_payments": {"url": demo.url, "control_key": demo.control_key}} if demo else {}

    def _processes(self) -> dict[str, object]:
        running = self.supervisor.processes()
        return {
            "pid": os.getpid(),
            "programs": {name: pid for name, pid in running.items() if name not in SERVERS},
            "servers": {name: pid for name, pid in running.items() if name in SERVERS},
        }

    def _processes_changed(self) -> None:
        running: dict[str, Identity] = {}
        for name, pid in self.supervisor.processes().items():
            identity = identify(pid)
            if identity is not None and name not in SERVERS:  # servers recognise their own leftovers
                running[name] = identity
        save_run(self._record, running)
        self._ready_file.update(self._processes())
