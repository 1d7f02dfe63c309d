"""Asking simulated hosts of this machine for faults, through their control sockets."""

import socket
from pathlib import Path

import msgspec

from gpuaas.client.errors import ClientError, Unreachable
from gpuaas.contracts.simulation import ControlAnswer, ControlRequest

ANSWER_SECONDS = 10.0


def ask(sockets: list[Path], request: ControlRequest) -> ControlAnswer:
    """What those who know the node say; of several sockets, all of them when no node is named."""
    answers = [_ask_one(path, request) for path in sockets]
    good = [answer for answer in answers if answer.ok]
    if not good:
        return answers[0] if answers else ControlAnswer(ok=False, message="there is no simulated fleet here")
    return ControlAnswer(ok=True, message=good[0].message, nodes=[node for answer in good for node in answer.nodes])


def sockets_in(folder: Path) -> list[Path]:
    """Of a fleet: one socket for each of its processes."""
    return sorted(path for path in folder.glob("*.sock") if path.is_socket())


def _ask_one(path: Path, request: ControlRequest) -> ControlAnswer:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(str(path))
            connection.sendall(msgspec.json.encode(request) + b"\n")
            with connection.makefile("rb") as lines:
                return msgspec.json.decode(lines.readline(), type=ControlAnswer)
    except OSError as error:
        raise Unreachable(str(path), error.strerror or str(error)) from error
    except msgspec.MsgspecError as error:
        raise ClientError(f"{path} did not answer as a simulated fleet does") from error
