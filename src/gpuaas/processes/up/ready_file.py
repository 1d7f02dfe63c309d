"""The ready file: present, complete and true exactly while the product is ready."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from gpuaas.infra.embedded.files import write_private
from gpuaas.processes.up.errors import UpError


class ReadyFile:
    """Written in one step, readable by its owner only: it holds passwords."""

    def __init__(self, path: Path | None) -> None:
        self._path = Path(os.path.abspath(path)) if path else None
        self._content: dict[str, object] = {}

    def clear(self) -> None:
        """Remove one of an earlier run, and find out now whether writing will work."""
        if self._path is None:
            return
        probe = self._path.with_name(f".{self._path.name}.probe")
        try:
            self._path.unlink(missing_ok=True)
            write_private(probe, b"")
            probe.unlink()
        except OSError as error:
            raise UpError(f"cannot write the ready file {self._path}: {error.strerror}") from None

    def write(self, content: Mapping[str, object]) -> None:
        """Say that the product is ready."""
        self._content = dict(content)
        self._save()

    def update(self, changed: Mapping[str, object]) -> None:
        """Keep it true after a restart of a part; nothing before it was first written."""
        if self._content:
            self._content |= changed
            self._save()

    def remove(self) -> None:
        """The product is no longer ready."""
        self._content = {}
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _save(self) -> None:
        if self._path is not None:
            write_private(self._path, json.dumps(self._content, indent=1).encode() + b"\n")
