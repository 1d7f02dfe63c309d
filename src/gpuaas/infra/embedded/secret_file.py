"""DATA/secrets.json: every generated secret of one data directory.

A name, once given a value, keeps it; the file is readable by its owner only, and refused otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from secrets import token_urlsafe

from gpuaas.infra.embedded.errors import EmbeddedError
from gpuaas.infra.embedded.files import read_private, write_private
from gpuaas.infra.embedded.lock import ExclusiveLock


def random_password() -> str:
    """Safe inside a URL, a configuration file and an SQL literal without any escaping."""
    return token_urlsafe(24)


class SecretFile:
    """The secrets under names; made on first use."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, str]:
        """All of them; empty before the first is made."""
        content = read_private(self.path)
        if content is None:
            return {}
        try:
            found = json.loads(content)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise EmbeddedError(f"{self.path} is damaged; restore it from a backup")
        return found

    def ensure(self, name: str, make: Callable[[], str] = random_password) -> str:
        """The secret called `name`, made and kept now if it was never made; two at once agree on one."""
        known = self.read()
        if name not in known:
            with ExclusiveLock(self.path.with_name(f".{self.path.name}.lock"), self.path.name, wait_seconds=5):
                known = self.read()
                if name not in known:
                    known[name] = make()
                    write_private(self.path, json.dumps(known, indent=1).encode() + b"\n")
        return known[name]
