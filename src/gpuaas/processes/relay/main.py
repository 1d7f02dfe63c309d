"""`gpuaas relay`: carries the outbox to NATS. Any number may run; one leads."""

import asyncio
import os
import signal
import sys

import uvloop

from gpuaas.infra.http.probes import Probes, ProbeServer
from gpuaas.infra.nats.bus import Bus
from gpuaas.infra.nats.streams import StreamKeeper
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.health import DatabaseHealth
from gpuaas.kit import log, trace
from gpuaas.processes.relay.relaying import Relay
from gpuaas.processes.settings import Settings, SettingsError, load_settings

STOP_SECONDS = 6.0


def main(argv: list[str]) -> int:
    if argv:
        sys.stderr.write("gpuaas relay takes no arguments: it is set up by GPUAAS_… variables\n")
        return 2
    try:
        settings = load_settings(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"gpuaas relay: {error}\n")
        return 2
    log.configure("relay", level=settings.log_level, form=settings.log_format)
    trace.configure("relay", settings.otlp_endpoint)
    try:
        return uvloop.run(_run(settings))
    finally:
        trace.shutdown()


async def _run(settings: Settings) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    db = Database(settings.database_url, read_pool_size=1, write_pool_size=1)
    health, bus = DatabaseHealth(db), Bus(settings.nats_url, "relay")
    keeper = StreamKeeper(bus)
    relay = Relay(settings.database_url, bus, keeper)
    probes = Probes(
        "relay",
        required={
            "database": health.reachable,
            "migrations": health.migrated,
            "nats": bus.check,
            "streams": keeper.check,
        },
    )
    server = ProbeServer(probes, settings.host, settings.metrics_port)
    try:
        await server.start()
    except OSError as error:
        sys.stderr.write(
            f"gpuaas relay: cannot listen on {settings.host} port {settings.metrics_port}: {error.strerror}\n"
        )
        return 1
    bus.start()
    background = [asyncio.create_task(health.open()), asyncio.create_task(keeper.run())]
    relaying = asyncio.create_task(relay.run())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({relaying, stopping}, return_when=asyncio.FIRST_COMPLETED)
    probes.stop()
    relay.stop()
    await asyncio.wait({relaying}, timeout=STOP_SECONDS)
    for task in (*background, relaying, stopping):
        task.cancel()
    await asyncio.wait({*background, stopping}, timeout=1.0)
    await server.stop()
    await bus.stop()
    await db.close()
    return _ended(relaying)


def _ended(relaying: asyncio.Task[None]) -> int:
    """A relay that ends by itself has met something it does not know; the supervisor starts another."""
    if relaying.done() and not relaying.cancelled() and relaying.exception() is not None:
        log.get_logger().error("the relay failed", exc_info=relaying.exception())
        return 1
    log.get_logger().info("stopped")
    return 0
