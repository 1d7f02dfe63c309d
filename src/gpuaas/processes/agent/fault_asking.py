"""`gpuaas agent fault`: asks the simulated hosts of this machine for a fault, over their sockets."""

import argparse
import sys

from gpuaas.client.simulation import ask, sockets_in
from gpuaas.contracts.simulation import ControlRequest
from gpuaas.processes.agent.errors import AgentError


def ask_fault(given: argparse.Namespace) -> int:
    sockets = sockets_in(given.control) if given.control.is_dir() else [given.control]
    request = ControlRequest(
        do=given.do,
        node=given.node,
        gpu=given.gpu,
        xid=given.xid,
        seconds=given.seconds,
        at=given.at,
        login=given.login,
    )
    answer = ask(sockets, request)
    if not answer.ok:
        raise AgentError(answer.message)
    for node in answer.nodes:
        sys.stdout.write(f"{node.node}  {node.gpus} GPUs  lost {node.lost_gpus}  faults {', '.join(node.faults)}\n")
    return 0
