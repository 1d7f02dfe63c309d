"""`gpuaas relay` and `gpuaas worker` as processes: started, asked, killed."""

import asyncio
import base64
import os
import signal
import subprocess
import sys
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import msgspec

from gpuaas.infra.embedded.ports import free_port

HOST = "127.0.0.1"


class ProgramProcess:
    """One program on its own probe port; its log is a file."""

    def __init__(self, name: str, database_url: str, nats_url: str, log: Path, *arguments: str) -> None:
        self.name = name
        self._arguments = arguments
        self.port = free_port()
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.settings = {
            "GPUAAS_DATABASE_URL": database_url,
            "GPUAAS_NATS_URL": nats_url,
            "GPUAAS_PUBLIC_URL": f"http://{HOST}",
            "GPUAAS_MASTER_KEY": base64.b64encode(b"k" * 32).decode(),
            "GPUAAS_METRICS_PORT": str(self.port),
        }

    def start(self) -> "ProgramProcess":
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gpuaas", self.name, *self._arguments],
                stdout=out,
                stderr=out,
                env=os.environ | self.settings,
            )
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(10)
            self._process = None

    def terminate(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self.wait(11)

    def wait(self, seconds: float) -> int:
        """Its exit code, once it has ended."""
        assert self._process is not None
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {seconds} s:\n{self.log[-3000:]}") from None
        self._process = None
        return code

    def ask(self, path: str, method: str = "GET") -> tuple[int, bytes]:
        """Status and body; (0, b'') when nobody answers."""
        connection = HTTPConnection(HOST, self.port, timeout=5)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, HTTPException):
            return 0, b""
        finally:
            connection.close()

    async def readiness(self) -> tuple[int, dict[str, Any]]:
        status, body = await asyncio.to_thread(self.ask, "/readyz")
        return status, msgspec.json.decode(body) if body else {}

    async def wait_ready(self, seconds: float = 20.0, *, status: int = 200) -> dict[str, Any]:
        found: dict[str, Any] = {}
        try:
            async with asyncio.timeout(seconds):
                while True:
                    got, found = await self.readiness()
                    if got == status:
                        return found
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{self.name} did not answer {status}: {found}\n{self.log[-3000:]}") from None
