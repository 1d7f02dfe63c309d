"""Faults on tap, for demos and drills: asked of the simulated fleet of `gpuaas up` on this machine, through its local
control sockets. A fleet of real machines has no such thing."""

from argparse import ArgumentTypeError
from pathlib import Path

import msgspec

from gpuaas.client import simulation
from gpuaas.client.errors import Unreachable
from gpuaas.contracts.simulation import ControlRequest, Do, NodeStatus, Point
from gpuaas.processes.cli.declare import Argument, Group
from gpuaas.processes.cli.failures import Exit, Stop, UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("faults", "Faults of the demo's simulated nodes, to see what happens. Speaks to this machine only.")
_DAY = 86_400.0
_COLUMNS: list[Column[NodeStatus]] = [
    ("node", lambda node: node.node),
    ("gpus", lambda node: node.gpus),
    ("lost gpus", lambda node: node.lost_gpus),
    ("accounts", lambda node: node.accounts),
    ("faults", lambda node: node.faults),
    ("id", lambda node: node.node_id),
]


def index(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 2 or int(text) > 63:
        raise ArgumentTypeError(f"{text!r} is not the number of a GPU (from 0 on)")
    return int(text)


def code(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < len(text) < 4 or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} is not an XID (1 to 999)")
    return int(text)


def seconds_of(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = _DAY + 1
    if not -_DAY <= found <= _DAY:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds (a day at most)")
    return found


def percent_of(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 100:
        raise ArgumentTypeError(f"{text!r} is not a percentage (0 to 100)")
    return found


_DATA = Argument(
    "--data-dir", default=".gpuaas", help="That of `gpuaas up`. Default: .gpuaas, as there.", completes="file"
)
_NODE = Argument("node", help="A simulated node, by name or id; 'all' for all of them.", completes="node")
_ONE_GPU = Argument("--gpu", kind=index, help="Only this GPU, by number. Default: the whole host.")


def _ask(run: Run, data_dir: str, request: ControlRequest) -> None:
    folder = Path(data_dir) / "fleet"
    advice = "Start one with: gpuaas up; if its data is elsewhere, say --data-dir."
    sockets = simulation.sockets_in(folder)
    if not sockets:
        raise Stop(f"No simulated fleet runs in {data_dir}.", advice, Exit.UNREACHABLE)
    try:
        answer = simulation.ask(sockets, request)
    except Unreachable as error:
        raise Stop(f"The simulated fleet in {data_dir} does not answer: {error}", advice, Exit.UNREACHABLE) from error
    if not answer.ok:
        raise UsageError(f"{answer.message[:1].upper()}{answer.message[1:]}.", "See them with: gpuaas ops faults list")
    if run.out.json:
        run.out.raw(msgspec.json.encode(answer))
    else:
        run.out.table(_COLUMNS, sorted(answer.nodes, key=lambda one: one.node), empty="It has no nodes.")


def _named(node: str) -> str:
    return "" if node == "all" else node


@GROUP.command("list", _DATA, summary="List the simulated nodes of this machine, and the faults they have now.")
def faults_list(run: Run, *, data_dir: str) -> None:
    _ask(run, data_dir, ControlRequest(do=Do.STATUS))


@GROUP.command(
    "lose-gpu",
    _NODE,
    Argument("gpu", kind=index, help="Its number on the node, from 0 on."),
    Argument("--xid", kind=code, default=79, help="What its driver complains with. Default: 79, fallen off the bus."),
    _DATA,
    summary="Have a GPU fall off the bus.",
    examples=["gpuaas ops faults lose-gpu demo-001 3", "gpuaas nodes slots demo-001"],
)
def lose_gpu(run: Run, *, node: str, gpu: int, xid: int, data_dir: str) -> None:
    _ask(run, data_dir, ControlRequest(do=Do.LOSE_GPU, node=_named(node), gpu=gpu, xid=xid))


@GROUP.command("fail-health", _NODE, _ONE_GPU, _DATA, summary="Have the next checks fail, of one GPU or of the host.")
def fail_health(run: Run, *, node: str, gpu: int | None, data_dir: str) -> None:
    _ask(run, data_dir, ControlRequest(do=Do.FAIL_HEALTH, node=_named(node), gpu=gpu))


@GROUP.command("hang-next-task", _NODE, _DATA, summary="Have the next task never end by itself.")
def hang_next_task(run: Run, *, node: str, data_dir: str) -> None:
    _ask(run, data_dir, ControlRequest(do=Do.HANG_NEXT_TASK, node=_named(node)))


@GROUP.command(
    "crash-mid-task",
    _NODE,
    Argument("--at", choices=tuple(Point), default=Point.DURING.value, help="Where in the task. Default: during."),
    _DATA,
    summary="Have the agent die in its next task.",
)
def crash_mid_task(run: Run, *, node: str, at: str, data_dir: str) -> None:
    _ask(run, data_dir, ControlRequest(do=Do.CRASH_MID_TASK, node=_named(node), at=Point(at)))


@GROUP.command(
    "drop-network",
    _NODE,
    Argument("--seconds", kind=seconds_of, default=0.0, help="For so long. Default: until cleared."),
    _DATA,
    summary="Cut a node's agent off.",
)
def drop_network(run: Run, *, node: str, seconds: float, data_dir: str) -> None:
    _ask(run, data_dir, ControlRequest(do=Do.DROP_NETWORK, node=_named(node), seconds=seconds))


@GROUP.command("refuse-reset", _NODE, _ONE_GPU, _DATA, summary="Have GPUs refuse to be reset after a tenant.")
def refuse_reset(run: Run, *, node: str, gpu: int | None, data_dir: str) -> None:
    _ask(run, data_dir, ControlRequest(do=Do.REFUSE_RESET, node=_named(node), gpu=gpu))


@GROUP.command("refuse-image", _NODE, _DATA, summary="Have a node fail to be installed anew after a tenant.")
def refuse_image(run: Run, *, node: str, data_dir: str) -> None:
    _ask(run, data_dir, ControlRequest(do=Do.REFUSE_IMAGE, node=_named(node)))


@GROUP.command(
    "gpu-use",
    _NODE,
    Argument("gpu", kind=index, help="Its number on the node, from 0 on."),
    Argument("percent", kind=percent_of, help="How much of it is used, 0 to 100."),
    _DATA,
    summary="Have somebody use a GPU, as its metrics tell it; nobody does unless asked for.",
    examples=["gpuaas ops faults gpu-use demo-001 0 90", "gpuaas ops node-metrics demo-001"],
)
def gpu_use(run: Run, *, node: str, gpu: int, percent: float, data_dir: str) -> None:
    _ask(run, data_dir, ControlRequest(do=Do.GPU_USE, node=_named(node), gpu=gpu, percent=percent))


@GROUP.command(
    "skew-clock",
    _NODE,
    Argument("seconds", kind=seconds_of, help="How wrong; negative: behind."),
    _DATA,
    summary="Have a node's clock be wrong.",
)
def skew_clock(run: Run, *, node: str, seconds: float, data_dir: str) -> None:
    _ask(run, data_dir, ControlRequest(do=Do.SKEW_CLOCK, node=_named(node), seconds=seconds))


@GROUP.command(
    "clear",
    Argument("node", optional=True, default="all", help="Only of this node. Default: of all.", completes="node"),
    _DATA,
    summary="End all faults. What was quarantined comes back through a passed check only.",
)
def clear(run: Run, *, node: str, data_dir: str) -> None:
    _ask(run, data_dir, ControlRequest(do=Do.CLEAR, node=_named(node)))
