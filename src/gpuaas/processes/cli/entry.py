"""Where `gpuaas` starts. A program's name runs that program; everything else is the client. Nothing of the server is
imported for the client, and nothing at all before it is known what is asked for."""

import sys
from importlib import import_module

# name → (module with main(argv), one line for --help)
PROGRAMS: dict[str, tuple[str, str]] = {
    "up": ("gpuaas.processes.up.main", "Run everything on this machine, with embedded PostgreSQL and NATS."),
    "api": ("gpuaas.processes.api.main", "Serve the API."),
    "relay": ("gpuaas.processes.relay.main", "Move events from the outbox to NATS."),
    "worker": ("gpuaas.processes.worker.main", "Run timers and reactions to events."),
    "demo-payments": ("gpuaas.processes.demo_payments.main", "Stand in for the payment provider: no money moves."),
    "webhooks": ("gpuaas.processes.webhooks.main", "Take notices of the payment provider."),
    "agent": ("gpuaas.processes.agent.main", "Run on a GPU host: enrol it, run its tasks, or simulate a fleet."),
    "migrate": ("gpuaas.processes.migrate.main", "Bring the database to the newest migration."),
    "gen": ("gpuaas.processes.gen.main", "Print contracts/ from the code."),
}


def main() -> None:
    arguments = sys.argv[1:]
    if arguments and arguments[0] in PROGRAMS:
        module, _ = PROGRAMS[arguments[0]]
        sys.exit(import_module(module).main(arguments[1:]))
    import_module("gpuaas.processes.cli.app").main()
