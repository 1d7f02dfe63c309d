"""`gpuaas demo-payments`: reads its settings, opens its file, serves until told to stop. Not in production."""

import asyncio
import os
import signal
import socket
import sys
from urllib.parse import urlsplit

import uvloop

from gpuaas.infra.http.probes import Probes
from gpuaas.infra.http.server import listen, make_server, serve
from gpuaas.kit import log
from gpuaas.processes.demo_payments.api import Api
from gpuaas.processes.demo_payments.app import App, CuttableProtocol
from gpuaas.processes.demo_payments.book import Book
from gpuaas.processes.demo_payments.browsing import Pages
from gpuaas.processes.demo_payments.control import Door
from gpuaas.processes.demo_payments.faults import Faults
from gpuaas.processes.demo_payments.journal import Journal, JournalRefused
from gpuaas.processes.demo_payments.settings import DemoSettings, read_settings
from gpuaas.processes.demo_payments.telling import Teller
from gpuaas.processes.demo_payments.upkeep import keep_up
from gpuaas.processes.settings import SettingsError


def main(argv: list[str]) -> int:
    try:
        settings = read_settings(argv, os.environ)
        journal = Journal(settings.data_dir)
    except (SettingsError, JournalRefused) as error:
        sys.stderr.write(f"gpuaas demo-payments: {error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"gpuaas demo-payments: {error.filename}: {error.strerror}\n")
        return 1
    try:
        listeners = [listen(host, settings.port) for host in settings.hosts]
    except OSError as error:
        where = f"{', '.join(settings.hosts)} port {settings.port}"
        sys.stderr.write(f"gpuaas demo-payments: cannot listen on {where}: {error.strerror}\n")
        return 1
    try:
        book = Book(journal)
    except JournalRefused as error:
        sys.stderr.write(f"gpuaas demo-payments: {error}\n")
        return 1
    log.configure("demo-payments", level=settings.log_level, form=settings.log_format)
    try:
        return uvloop.run(_run(settings, book, listeners))
    finally:
        journal.close()


async def _run(settings: DemoSettings, book: Book, listeners: list[socket.socket]) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    faults = Faults()
    teller = Teller(book, faults, settings.webhooks_url, settings.webhook_secret)
    app = App(
        Api(book, faults, base_url=settings.url, secret_key=settings.secret_key, wake=teller.wake),
        Pages(book, urlsplit(settings.url).netloc),
        Door(book, faults, teller, settings.control_key),
        faults,
        Probes("demo-payments", required={}),
        teller.wake,
    )
    background = [asyncio.create_task(teller.run()), asyncio.create_task(keep_up(book, teller.wake))]
    for task in background:  # without them nothing is told any more: better to end, and be started again
        task.add_done_callback(lambda _: stop.set())
    server = make_server(app, host=settings.hosts[0], port=settings.port, protocol=CuttableProtocol)
    first, *more = listeners
    await serve(server, first, stop, *more)
    broken = [task.exception() for task in background if task.done()]
    for error in broken:
        log.get_logger().error("failed", exc_info=error)
    for task in background:
        task.cancel()
    await asyncio.wait(background)
    return 1 if broken else 0
