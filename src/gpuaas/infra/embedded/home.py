"""The directory one server writes to.

It is DATA/<name>. Where the account the server runs as cannot enter DATA, it is made in the shared place
instead and DATA/<name> is a symbolic link to it, so the same path always leads there. No permission of a
directory we did not make is ever changed.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR
from uuid import uuid4

from gpuaas.infra.embedded.account import Account
from gpuaas.infra.embedded.binaries import SHARED_DIRECTORY
from gpuaas.infra.embedded.errors import EmbeddedError


def make_data_directory(path: Path) -> Path:
    """Make DATA if there is none: nobody else may list it, and root's may be passed through by name."""
    resolved = Path(os.path.abspath(path))
    if not resolved.is_dir():
        resolved.parent.mkdir(parents=True, exist_ok=True)
        _make_passable(resolved)
    return resolved


def make_temporary_directory() -> Path:
    """A new data directory the servers' account can enter, unlike those of `tempfile` and pytest."""
    place = Path("/tmp", f"gpuaas-{uuid4().hex[:12]}")  # noqa: S108 - the name is new and ours
    place.mkdir(mode=0o700)
    place.chmod(0o711 if os.geteuid() == 0 else 0o700)
    return place


def make_home(data: Path, name: str, account: Account | None, shared: Path = SHARED_DIRECTORY) -> Path:
    """The server's directory with every link resolved. It stays ours: the account owns only what is put in
    it with `make_owned`, so a captured server cannot plant links for root to follow."""
    link = data / name
    if link.is_symlink() and not link.is_dir():
        raise EmbeddedError(f"{link} points to {os.readlink(link)}, which is gone: restore that directory")
    if not link.is_dir():
        if account is None or account.may_enter(data):
            _make_passable(link)
        else:
            target = shared / "instances" / uuid4().hex / name
            for directory in (shared, target.parent.parent, target.parent):
                _make_passable(directory)
            (target.parent / "belongs-to").write_text(f"{data}\n")
            _make_passable(target)
            with suppress(FileExistsError):  # another start was quicker: its directory counts
                link.symlink_to(target)
    home = link.resolve()
    if account is not None and not account.may_enter(home):
        raise EmbeddedError(f"the account {account.name}, which runs {name}, cannot enter {home}")
    return home


def make_owned(directory: Path, account: Account | None) -> Path:
    """A directory that belongs to the server's account alone; as it is if it exists."""
    uid, gid = (account.uid, account.gid) if account else (os.geteuid(), os.getegid())
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
        os.chown(directory, uid, gid)
    found = directory.lstat()
    if not S_ISDIR(found.st_mode) or found.st_uid != uid:
        raise EmbeddedError(f"{directory} is not a directory of the account that runs the server (uid {uid})")
    return directory


def remove_home(data: Path, name: str) -> None:
    """Delete the server's directory, wherever it is; for tests and for starting over."""
    link = data / name
    if link.is_symlink():
        shutil.rmtree(Path(os.readlink(link)).parent, ignore_errors=True)
        link.unlink()
    else:
        shutil.rmtree(link, ignore_errors=True)


def _make_passable(directory: Path) -> None:
    if not directory.is_dir():
        directory.mkdir(exist_ok=True)
        directory.chmod(0o711 if os.geteuid() == 0 else 0o700)
