"""Small files other programs depend on: a reader sees the old content or the new, never half of one."""

from __future__ import annotations

import os
from pathlib import Path

from gpuaas.infra.embedded.errors import EmbeddedError


def write_private(path: Path, content: bytes) -> None:
    """Replace `path` in one step; only its owner may read it, also while it is being written."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def read_private(path: Path) -> bytes | None:
    """The content, None if there is no such file; refused when anybody but its owner may read it."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read()
    except FileNotFoundError:
        return None
    if status.st_mode & 0o077:
        raise EmbeddedError(f"{path} may be read by others (mode {status.st_mode & 0o777:04o}); chmod 600 it")
    if status.st_uid not in (0, os.geteuid()):
        raise EmbeddedError(f"{path} belongs to another user (uid {status.st_uid})")
    return content
