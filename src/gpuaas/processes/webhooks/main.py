"""`gpuaas webhooks`: takes notices of the payment provider. Any number may run."""

import asyncio
import os
import signal
import socket
import sys

import uvloop

from gpuaas.infra.http.probes import Probes
from gpuaas.infra.http.server import listen, make_server, serve
from gpuaas.infra.payments.stripe_provider import StripePayments
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.health import DatabaseHealth
from gpuaas.kit import log, trace
from gpuaas.processes.settings import Settings, SettingsError, load_settings
from gpuaas.processes.webhooks.app import WebhooksApp

READING = "sk_reads_notices_only"
"""This program asks the provider nothing, so it has no key of it."""


def main(argv: list[str]) -> int:
    if argv:
        sys.stderr.write("gpuaas webhooks takes no arguments: it is set up by GPUAAS_… variables\n")
        return 2
    try:
        settings = load_settings(os.environ)
        if not settings.webhook_secrets:
            raise SettingsError("GPUAAS_STRIPE_WEBHOOK_SECRETS is missing: without it no notice can be believed")
    except SettingsError as error:
        sys.stderr.write(f"gpuaas webhooks: {error}\n")
        return 2
    try:
        listener = listen(settings.webhooks_host, settings.webhooks_port)
    except OSError as error:
        where = f"{settings.webhooks_host} port {settings.webhooks_port}"
        sys.stderr.write(f"gpuaas webhooks: cannot listen on {where}: {error.strerror}\n")
        return 1
    log.configure("webhooks", level=settings.log_level, form=settings.log_format)
    trace.configure("webhooks", settings.otlp_endpoint)
    try:
        uvloop.run(_run(settings, listener))
    finally:
        trace.shutdown()
    return 0


async def _run(settings: Settings, listener: socket.socket) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    db = Database(settings.database_url, read_pool_size=1, write_pool_size=settings.write_pool_size)
    health, provider = DatabaseHealth(db), StripePayments(READING)
    probes = Probes("webhooks", required={"database": health.reachable, "migrations": health.migrated})
    app = WebhooksApp(db, provider, settings.webhook_secrets, probes)
    opening = asyncio.create_task(health.open())
    try:
        await serve(make_server(app, host=settings.webhooks_host, port=settings.webhooks_port), listener, stop)
    finally:
        opening.cancel()
        await provider.close()
        await db.close()
    log.get_logger().info("stopped")
