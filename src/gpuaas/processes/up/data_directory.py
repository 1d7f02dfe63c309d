"""DATA: the one directory everything is kept in.

While `up` runs it alone holds the directory. A directory written by another layout is refused before
anything in it is touched.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from pathlib import Path
from secrets import token_bytes, token_hex
from types import TracebackType

from gpuaas.infra.embedded.errors import EmbeddedError
from gpuaas.infra.embedded.files import write_private
from gpuaas.infra.embedded.home import make_data_directory
from gpuaas.infra.embedded.lock import ExclusiveLock
from gpuaas.infra.embedded.secret_file import SecretFile
from gpuaas.processes.up.errors import UpError

LAYOUT = 1
"""Raised when files in DATA change their meaning; the older layout is then converted or refused here."""

_KEY_BYTES = 32


class DataDirectory:
    """DATA, held from entering to leaving the `with` block."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))
        self._lock = ExclusiveLock(self.path / "up.lock", f"the data directory {self.path}")

    @property
    def logs(self) -> Path:
        """Where every part writes its log."""
        return self.path / "logs"

    @property
    def objects_url(self) -> str:
        """Where files are kept when no other place was set."""
        return (self.path / "objects").as_uri()

    def master_key(self) -> str:
        """The key all other secrets in the database are wrapped with; made once."""
        return self._secret("master_key")

    def task_signing_key(self) -> str:
        """The key tasks of nodes are signed with; made once, given to the worker alone."""
        return self._secret("task_signing_key")

    def made_key(self, name: str, prefix: str) -> str:
        """A key that tells by its prefix what it is for; made once."""
        return SecretFile(self.path / "secrets.json").ensure(name, lambda: prefix + token_hex(_KEY_BYTES))

    def _secret(self, name: str) -> str:
        secrets = SecretFile(self.path / "secrets.json")
        return secrets.ensure(name, lambda: b64encode(token_bytes(_KEY_BYTES)).decode())

    def last_port(self, name: str = "port") -> int | None:
        """The API's port (or its agents' listener's) in the last run that became ready; None before there was one."""
        try:
            port = int((self.path / name).read_text())
        except (OSError, ValueError):
            return None
        return port if 0 < port < 65_536 else None

    def keep_port(self, port: int, name: str = "port") -> None:
        """Remember a port for the next run."""
        write_private(self.path / name, f"{port}\n".encode())

    def __enter__(self) -> DataDirectory:
        try:
            make_data_directory(self.path)
            self._lock.acquire()
        except EmbeddedError as error:
            raise UpError(str(error)) from None
        except OSError as error:
            raise UpError(f"cannot write to the data directory {self.path}: {error.strerror}") from None
        try:
            self._check_layout()
            SecretFile(self.path / "secrets.json").read()
            self.logs.mkdir(mode=0o700, exist_ok=True)
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def _check_layout(self) -> None:
        file = self.path / "layout.json"
        try:
            found = json.loads(file.read_bytes())["layout"]
        except FileNotFoundError:
            found = LAYOUT
            write_private(file, json.dumps({"layout": LAYOUT}).encode() + b"\n")
        except (ValueError, KeyError, TypeError):
            found = "unknown"
        if found != LAYOUT:
            raise UpError(
                f"the data directory {self.path} has layout {found}, this version reads {LAYOUT}: "
                "use the version that made it, or another directory"
            )
