"""`gpuaas api`: reads the settings, picks the implementations, lists the parts, serves until told to stop."""

import asyncio
import os
import signal
import socket
import sys

import uvloop

from gpuaas.domains.nodes.claims.service import TaskWaiters
from gpuaas.infra.http.app import App
from gpuaas.infra.http.server import listen, make_server, serve
from gpuaas.kit import log, trace
from gpuaas.ports.objects import ObjectsAway
from gpuaas.processes.api.agents import serve_agents
from gpuaas.processes.api.assembly import assemble
from gpuaas.processes.settings import Settings, SettingsError, load_settings


def main(argv: list[str]) -> int:
    if argv:
        sys.stderr.write("gpuaas api takes no arguments, but GPUAAS_… variables: see contracts/settings.md\n")
        return 2
    try:
        settings = load_settings(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"gpuaas api: {error}\n")
        return 2
    listeners: list[socket.socket] = []
    for host, port in _addresses(settings):
        try:
            listeners.append(listen(host, port))
        except OSError as error:
            sys.stderr.write(f"gpuaas api: cannot listen on {host} port {port}: {error.strerror}\n")
            return 1
    log.configure("api", level=settings.log_level, form=settings.log_format)
    trace.configure("api", settings.otlp_endpoint)
    try:
        uvloop.run(_run(settings, *listeners))
    except ObjectsAway as error:
        sys.stderr.write(f"gpuaas api: {error}\n")
        return 1
    finally:
        log.flush_access()
        trace.shutdown()
    return 0


def _addresses(settings: Settings) -> list[tuple[str, int]]:
    agents = [(settings.agent_host, settings.agent_port)] if settings.agent_port else []
    return [(settings.host, settings.port), *agents]


async def _run(settings: Settings, listener: socket.socket, agents: socket.socket | None = None) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with assemble(settings) as app:
        server = make_server(app, host=settings.host, port=settings.port)
        work = [serve(server, listener, stop)]
        if agents is not None:
            work += [serve_agents(app.edge, agents, stop), _answer_waiting(app, stop)]
        await asyncio.gather(*work)


async def _answer_waiting(app: App, stop: asyncio.Event) -> None:
    """Agents that wait for a task are answered when we stop: they ask another replica, or us when we are back."""
    await stop.wait()
    app.edge.parts.get(TaskWaiters).close()
