"""`gpuaas worker`: runs reactions to events, and timers. Any number may run; each event is handled once, each timer by
one of them."""

import argparse
import asyncio
import os
import signal
import sys

import uvloop

from gpuaas.flows.executor import AT_ONCE as FLOWS_AT_ONCE
from gpuaas.infra.http.probes import Probes, ProbeServer
from gpuaas.infra.nats.bus import Bus
from gpuaas.infra.nats.publish import Publisher
from gpuaas.infra.nats.streams import StreamKeeper
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.health import DatabaseHealth
from gpuaas.kit import log, trace
from gpuaas.ports.objects import ObjectsAway
from gpuaas.processes.settings import Settings, SettingsError, load_settings
from gpuaas.processes.worker.assembly import assemble, background
from gpuaas.processes.worker.consumers import Consumers
from gpuaas.processes.worker.roles import Role, mine
from gpuaas.processes.worker.timers import Timers

STOP_SECONDS = 6.0
SPARE_CONNECTIONS = 2


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="gpuaas worker", description="Runs reactions to events, and timers.")
    roles = [role.value for role in Role]
    parser.add_argument(
        "--role", choices=roles, default=Role.ALL.value, help="which part of the work to do; default: all"
    )
    role = Role(parser.parse_args(argv).role)
    try:
        settings = load_settings(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"gpuaas worker: {error}\n")
        return 2
    log.configure("worker", level=settings.log_level, form=settings.log_format)
    trace.configure("worker", settings.otlp_endpoint)
    try:
        return uvloop.run(_run(settings, role))
    except ObjectsAway as error:
        sys.stderr.write(f"gpuaas worker: {error}\n")
        return 1
    finally:
        trace.shutdown()


async def _run(settings: Settings, role: Role) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    db = Database(
        settings.database_url,
        read_pool_size=settings.read_pool_size,
        write_pool_size=settings.write_pool_size + FLOWS_AT_ONCE,
    )
    health, bus = DatabaseHealth(db), Bus(settings.nats_url, "worker")
    keeper = StreamKeeper(bus)
    probes = Probes(
        "worker",
        required={"database": health.reachable, "migrations": health.migrated},
        wanted={"nats": bus.check, "streams": keeper.check},
    )
    server = ProbeServer(probes, settings.host, settings.metrics_port)
    try:
        await server.start()
    except OSError as error:
        sys.stderr.write(
            f"gpuaas worker: cannot listen on {settings.host} port {settings.metrics_port}: {error.strerror}\n"
        )
        return 1
    bus.start()
    try:
        return await _work(settings, role, db, health, bus, keeper, probes, stop)
    finally:
        await server.stop()
        await bus.stop()
        await db.close()


async def _work(
    settings: Settings,
    role: Role,
    db: Database,
    health: DatabaseHealth,
    bus: Bus,
    keeper: StreamKeeper,
    probes: Probes,
    stop: asyncio.Event,
) -> int:
    stopping = asyncio.create_task(stop.wait())
    opening = asyncio.create_task(health.open())
    await asyncio.wait({opening, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set():
        opening.cancel()
        return 0
    parts, registry = assemble(settings, db, bus, Publisher(bus))
    slots = max(1, settings.write_pool_size - SPARE_CONNECTIONS)
    consumers = Consumers(db, bus, parts, mine(role, registry.reactions()), slots=slots)
    timers = Timers(settings.database_url, mine(role, registry.timers()), parts)
    ticking, consuming = asyncio.create_task(timers.run()), asyncio.create_task(consumers.run())
    others = [asyncio.create_task(work) for work in (keeper.run(), *background(parts, role))]
    done, _ = await asyncio.wait({stopping, ticking, consuming, *others}, return_when=asyncio.FIRST_COMPLETED)
    probes.stop()
    timers.stop()
    consuming.cancel()
    await asyncio.gather(consumers.finish(STOP_SECONDS), asyncio.wait({ticking}, timeout=STOP_SECONDS))
    for task in (ticking, *others):
        task.cancel()
    await asyncio.wait({ticking, consuming, *others}, timeout=1.0)
    failed = [ended for ended in done if not ended.cancelled() and ended.exception() is not None]
    for ended in failed:
        log.get_logger().error("the worker failed", exc_info=ended.exception())
    log.get_logger().info("stopped")
    return 1 if failed else 0
