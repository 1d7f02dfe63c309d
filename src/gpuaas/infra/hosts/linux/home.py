"""An account's home and the keys that open it.

The home belongs to a user who may be hostile and running: every step below it goes through open directories, follows
no symbolic link and writes to no file that was there before."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex

from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.infra.hosts.linux.mounts import unmount_below
from gpuaas.infra.hosts.linux.removal import remove_entry
from gpuaas.ports.host import HostFailed

KEYS = "authorized_keys"
MAX_KEYS_BYTES = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_home(layout: Layout, login: str, uid: int) -> None:
    """The home, entered by its owner alone."""
    with _opened_parent(layout) as parent:
        _make_directory(parent, login)
        with _opened(parent, login) as home:
            owner = os.fstat(home).st_uid
            if owner not in (0, uid):
                raise HostFailed("home_occupied", f"{layout.home(login)} belongs to uid {owner}")
            os.fchown(home, uid, uid)
            os.fchmod(home, 0o700)


def write_keys(layout: Layout, login: str, uid: int, ssh_keys: list[str]) -> None:
    """Exactly these keys open the account."""
    content = "".join(f"{key}\n" for key in ssh_keys).encode()
    with _opened_parent(layout) as parent, _opened(parent, login) as home:
        status = _look(home, ".ssh")
        if status is not None and not (stat.S_ISDIR(status.st_mode) and status.st_uid == uid):
            remove_entry(home, ".ssh")
        _make_directory(home, ".ssh")
        with _opened(home, ".ssh") as ssh:
            os.fchown(ssh, uid, uid)
            os.fchmod(ssh, 0o700)
            if (found := _look(ssh, KEYS)) is not None and not stat.S_ISREG(found.st_mode):
                remove_entry(ssh, KEYS)
            remove_entry(ssh, f"{KEYS}2")  # sshd reads it too
            draft = f".{KEYS}.{token_hex(6)}"
            descriptor = os.open(draft, _NEW, 0o600, dir_fd=ssh)
            with os.fdopen(descriptor, "wb") as file:
                os.fchown(descriptor, uid, uid)
                os.fchmod(descriptor, 0o600)
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            os.rename(draft, KEYS, src_dir_fd=ssh, dst_dir_fd=ssh)


def read_keys(layout: Layout, login: str) -> list[str]:
    with _opened_parent(layout) as parent, _opened(parent, login) as home, _opened(home, ".ssh") as ssh:
        descriptor = os.open(KEYS, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=ssh)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(MAX_KEYS_BYTES).decode(errors="replace").splitlines()


def remove_home(layout: Layout, login: str) -> None:
    """With all that is in it, whoever owns it; what is mounted in it is unmounted, never emptied."""
    unmount_below(layout, layout.home(login))
    with _opened_parent(layout) as parent:
        remove_entry(parent, login)


def home_is_there(layout: Layout, login: str) -> bool:
    with _opened_parent(layout) as parent:
        return _look(parent, login) is not None


def _look(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return None


def _make_directory(directory: int, name: str) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=directory)
    except FileExistsError:
        return


@contextmanager
def _opened_parent(layout: Layout) -> Iterator[int]:
    descriptor = os.open(layout.home_root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_uid != 0:
            raise HostFailed("homes_unsafe", f"{layout.home_root} must belong to root")
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened(directory: int, name: str) -> Iterator[int]:
    try:
        descriptor = os.open(name, _DIRECTORY, dir_fd=directory)
    except OSError as error:
        raise HostFailed("home_unsafe", f"{name} in a home is no directory: {error.strerror}") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)
