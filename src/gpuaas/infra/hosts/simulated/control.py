"""The local control of simulated hosts: a unix socket of the user who started them, one JSON line each way.

Always holds: the socket is 0600 and only processes of the same user are answered; it leads to no other machine."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from gpuaas.contracts.simulation import MAX_LINE, ControlAnswer, ControlRequest, Do
from gpuaas.infra.hosts.simulated.host import SimulatedHost
from gpuaas.ports.host import HostFailed

Hosts = Callable[[], Iterable[tuple[SimulatedHost, str]]]
"""The hosts there are now, each with its node's id."""


class ControlRefused(OSError):
    """The socket cannot be made. One line."""


class Control:
    def __init__(self, path: Path, hosts: Hosts) -> None:
        self._path = path
        self._hosts = hosts
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, self._path, limit=MAX_LINE)
        except OSError as error:
            raise ControlRefused(f"cannot make the control socket {self._path}: {error}") from None
        finally:
            os.umask(before)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if _peer_uid(writer.get_extra_info("socket")) not in (0, os.geteuid()):
                return
            while line := await reader.readline():
                writer.write(msgspec.json.encode(self._answer(line)) + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _answer(self, line: bytes) -> ControlAnswer:
        try:
            asked = msgspec.json.decode(line, type=ControlRequest)
        except msgspec.MsgspecError as error:
            return ControlAnswer(ok=False, message=str(error))
        chosen = [(host, node_id) for host, node_id in self._hosts() if asked.node in ("", host.name, node_id)]
        if not chosen:
            return ControlAnswer(ok=False, message=f"there is no node {asked.node}")
        try:
            said = [_do(host, asked) for host, _ in chosen]
        except HostFailed as failure:
            return ControlAnswer(ok=False, message=str(failure))
        return ControlAnswer(
            ok=True, message=next(filter(None, said), ""), nodes=[host.status(node_id) for host, node_id in chosen]
        )


def _do(host: SimulatedHost, asked: ControlRequest) -> str:
    match asked.do:
        case Do.STATUS:
            pass
        case Do.LOSE_GPU:
            host.lose_gpu(asked.gpu or 0, asked.xid)
        case Do.FAIL_HEALTH:
            host.fail_health(asked.gpu)
        case Do.HANG_NEXT_TASK:
            host.tap.hang = True
        case Do.CRASH_MID_TASK:
            host.tap.crash_at = asked.at
        case Do.DROP_NETWORK:
            host.tap.drop_network(asked.seconds)
        case Do.REFUSE_RESET:
            host.refuse_reset(asked.gpu)
        case Do.REFUSE_IMAGE:
            host.refuse_image()
        case Do.GPU_USE:
            host.use_gpu(asked.gpu, asked.percent)
        case Do.SKEW_CLOCK:
            host.skew_clock(asked.seconds)
        case Do.CLEAR:
            host.clear()
        case Do.RUN:
            return str(host.leave_running(asked.login, asked.seconds))
    return ""


def _peer_uid(connection: socket.socket) -> int:
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", packed)[1])
