"""Who the embedded servers run as.

PostgreSQL refuses to run as root. Started by root, the servers run as a system account that owns nothing
but their data; started by anybody else, they run as that person and nothing here applies.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gpuaas.infra.embedded.errors import EmbeddedError

ACCOUNT_NAME = "gpuaas"
_FALLBACK_NAME = "nobody"
_USERADD_TIMEOUT_SECONDS = 20


@dataclass(frozen=True)
class Account:
    """An unprivileged system account."""

    name: str
    uid: int
    gid: int

    def may_enter(self, directory: Path) -> bool:
        """Whether every directory from the root down to this one lets the account pass."""
        resolved = directory.resolve()
        return all(self._may_pass(step) for step in (resolved, *resolved.parents))

    def may_run(self, program: Path) -> bool:
        """Whether the account can reach this program, read it and run it."""
        return self.may_enter(program.parent) and self._permissions(program) & 0o5 == 0o5

    def _may_pass(self, directory: Path) -> bool:
        return bool(self._permissions(directory) & 0o1)

    def _permissions(self, path: Path) -> int:
        status = path.stat()
        if status.st_uid == self.uid:
            return status.st_mode >> 6 & 0o7
        if status.st_gid == self.gid:
            return status.st_mode >> 3 & 0o7
        return status.st_mode & 0o7


def server_account() -> Account | None:
    """The account to switch to; None when we are not root and the servers run as ourselves."""
    if os.geteuid() != 0:
        return None
    for name in (ACCOUNT_NAME, _FALLBACK_NAME):
        found = _look_up(name) or (_create(name) if name == ACCOUNT_NAME else None)
        if found is not None:
            return found
    raise EmbeddedError(
        f"PostgreSQL cannot run as root and there is no account to run it as: add one named {ACCOUNT_NAME}"
    )


def _look_up(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(name, entry.pw_uid, entry.pw_gid) if entry.pw_uid != 0 else None


def _create(name: str) -> Account | None:
    """Add the account; None where that is impossible. Another start may have added it meanwhile."""
    program = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is not None:
        nowhere = ["--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
        subprocess.run(
            [program, "--system", "--user-group", *nowhere, name],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_USERADD_TIMEOUT_SECONDS,
            check=False,
        )
    return _look_up(name)
