"""`gpuaas agent`: enrol a machine, run its agent, keep it current, or simulate a fleet. Exit 0 after an orderly stop, 1
with one clear line when something is wrong, 75 to be started again as another version."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from gpuaas import __version__
from gpuaas.client.api import Api
from gpuaas.client.errors import ClientError
from gpuaas.contracts.simulation import Do, Point
from gpuaas.infra.hosts.linux.proving import AUTO
from gpuaas.kit import log
from gpuaas.processes.agent.alone import Alone
from gpuaas.processes.agent.enrolment import enrol
from gpuaas.processes.agent.errors import AgentError
from gpuaas.processes.agent.fault_asking import ask_fault
from gpuaas.processes.agent.fleet import Fleet, read_places
from gpuaas.processes.agent.launcher import Launcher
from gpuaas.processes.agent.state_directory import StateDirectory

STATE_DIR = Path("/var/lib/gpuaas-agent")
ENROLMENTS = "enrolments.jsonl"


def main(argv: Sequence[str]) -> int:
    top = parser()
    given, unknown = top.parse_known_args(list(argv))
    if unknown and not getattr(given, "launched", ""):
        top.error(f"unrecognized arguments: {' '.join(unknown)}")
    # Launched by a version of ours that knows more than this one: what this one does not know, it does not do.
    try:
        return int(given.verb(given))
    except (AgentError, ClientError, OSError) as error:
        sys.stderr.write(f"gpuaas agent: {error}\n")
        return 1


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="gpuaas agent", description="What runs on a GPU host.")
    verbs = top.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, does: Any, about: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=about, description=about)
        added.set_defaults(verb=does)
        added.add_argument("--state-dir", type=Path, default=STATE_DIR, help="everything it keeps (%(default)s)")
        return added

    one = verb("enrol", _enrol, "Make this machine a node, with the token the control plane printed.")
    one.add_argument("--url", required=True, help="the control plane")
    one.add_argument("--token", default=os.environ.get("GPUAAS_ENROL_TOKEN", ""), help="or GPUAAS_ENROL_TOKEN")
    one.add_argument("--plain-http", action="store_true", help="allow a URL without TLS to another machine")
    one.add_argument("--replace", action="store_true", help="be another node from now on")
    for name, does, about in (
        ("run", _run, "Run the agent of an enrolled machine."),
        ("launch", _launch, "Run the agent, and let it be replaced by newer versions of itself."),
    ):
        one = verb(name, does, about)
        one.add_argument("--driver", default="linux", help="linux, or simulated:TOPOLOGY (%(default)s)")
        one.add_argument("--control", type=Path, help="socket for faults of a simulated host")
        one.add_argument(
            "--load-test",
            default=os.environ.get("GPUAAS_AGENT_LOAD_TEST", AUTO),
            help="how GPUs are put under load: auto, memory, dcgm, nvbandwidth, or a program that is run with a GPU's "
            "PCI address and serial number; or GPUAAS_AGENT_LOAD_TEST (%(default)s)",
        )
        one.add_argument("--launched", default="", help=argparse.SUPPRESS)
    one = verb("fleet", _fleet, "Run many simulated nodes in this process.")
    one.add_argument("--url", default="http://127.0.0.1:8080", help="the control plane, to enrol at")
    one.add_argument("--nodes", type=int, default=0, help="how many of those enrolled (0: all)")
    one.add_argument("--enrolments", default=ENROLMENTS, help="file of names and tokens in the state directory")
    one.add_argument("--topology", default="8xh200", help="of nodes that name none (%(default)s)")
    one.add_argument("--control", type=Path, help="socket for faults")
    one = verb("fault", ask_fault, "Ask simulated hosts of this machine for a fault.")
    one.add_argument("do", type=Do, choices=list(Do), metavar="|".join(Do))
    one.add_argument("--control", type=Path, required=True, help="their socket, or the folder of their sockets")
    one.add_argument("--node", default="")
    one.add_argument("--gpu", type=int)
    one.add_argument("--xid", type=int, default=79)
    one.add_argument("--seconds", type=float, default=0.0)
    one.add_argument("--at", type=Point, choices=list(Point), default=Point.DURING)
    one.add_argument("--login", default="")
    return top


def _enrol(given: argparse.Namespace) -> int:
    if not given.token:
        raise AgentError("give the token: --token, or GPUAAS_ENROL_TOKEN")
    state = StateDirectory.make(given.state_dir)
    with Api(given.url) as api:
        enrolment = enrol(
            state, api, token=given.token, version=__version__, plain_http=given.plain_http, replace=given.replace
        )
    sys.stdout.write(
        f"Enrolled as {enrolment.name} ({enrolment.node_id}). Run: gpuaas agent run --state-dir {given.state_dir}\n"
    )
    return 0


def _run(given: argparse.Namespace) -> int:
    log.configure("agent", level=os.environ.get("GPUAAS_LOG_LEVEL", "info"))
    alone = Alone(StateDirectory.open(given.state_dir), given.driver, given.control, given.launched, given.load_test)
    return asyncio.run(_until_told(alone.run()))


def _launch(given: argparse.Namespace) -> int:
    log.configure("agent-launcher", level=os.environ.get("GPUAAS_LOG_LEVEL", "info"))
    # Only what was said: a version that is launched may be older, and not know the rest.
    more = ["--driver", given.driver, *(["--load-test", given.load_test] if given.load_test != AUTO else [])]
    more += ["--control", str(given.control)] if given.control else []
    return Launcher(StateDirectory.open(given.state_dir), more).run()


def _fleet(given: argparse.Namespace) -> int:
    log.configure("agent-fleet", level=os.environ.get("GPUAAS_LOG_LEVEL", "warning"))
    return asyncio.run(_until_told(_run_fleet(given)))


async def _run_fleet(given: argparse.Namespace) -> int:
    state = StateDirectory.make(given.state_dir)
    fleet, places = Fleet(state, given.control), read_places(state, given.enrolments)[: given.nodes or None]
    await fleet.run(places, given.url, given.topology)
    return 0


async def _until_told(work: Coroutine[Any, Any, int]) -> int:
    """Until it ends, or a signal ends it."""
    running = asyncio.create_task(work)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    try:
        return await running
    except asyncio.CancelledError:
        return 0
