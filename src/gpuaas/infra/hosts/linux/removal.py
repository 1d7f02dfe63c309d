"""Taking files away that a hostile user has made: no symbolic link is followed, no mount is entered, any depth of
directories costs two descriptors, and an immutable file is made mutable first.

A tree is removed by moving each directory's subdirectories up to the top of it, so nothing here recurses. The kernel
refuses to move a mount point, therefore what is mounted inside a tree survives, and the removal fails loudly."""

import array
import fcntl
import os
import stat
from collections.abc import Iterator
from secrets import token_hex

from gpuaas.ports.host import HostFailed

MAX_DIRECTORIES = 20_000_000
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602  # FS_IOC_GETFLAGS, FS_IOC_SETFLAGS
_IMMUTABLE_OR_APPEND = 0x10 | 0x20


def remove_entry(directory: int, name: str) -> None:
    """Remove what stands under this name in an open directory; nothing there is as well."""
    try:
        status = os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(status.st_mode):
            _insist(directory, name, is_directory=False)
            return
        top = os.open(name, _DIRECTORY, dir_fd=directory)
        try:
            _empty(top)
        finally:
            os.close(top)
        _insist(directory, name, is_directory=True)
    except FileNotFoundError:
        return
    except OSError as error:
        raise HostFailed("cannot_remove", f"{name!r} cannot be removed: {error.strerror}") from None


def _empty(top: int) -> None:
    """Flatten and empty: after each round the tree is one level lower."""
    _mutable(top)
    mark = f".gone-{token_hex(6)}-"
    for count, name in enumerate(_directories_after_files(top)):
        inner = os.open(name, _DIRECTORY, dir_fd=top)
        try:
            _mutable(inner)
            for deeper, below in enumerate(_directories_after_files(inner)):
                _move_up(inner, below, top, f"{mark}{count}-{deeper}")
        finally:
            os.close(inner)
        _insist(top, name, is_directory=True)
        if count > MAX_DIRECTORIES:
            raise HostFailed("too_many_files", f"more than {MAX_DIRECTORIES} directories in one tree")


def _directories_after_files(directory: int) -> Iterator[str]:
    """Unlink all that is no directory, and name the directories, until there are none."""
    while True:
        with os.scandir(directory) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for name, is_directory in found:
            if not is_directory:
                _insist(directory, name, is_directory=False)
        names = [name for name, is_directory in found if is_directory]
        if not names:
            return
        yield from names


def _move_up(source: int, name: str, target: int, new_name: str) -> None:
    try:
        os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
    except PermissionError:
        _make_mutable(source, name)
        os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)


def _insist(directory: int, name: str, *, is_directory: bool) -> None:
    remove = os.rmdir if is_directory else os.unlink
    try:
        remove(name, dir_fd=directory)
    except FileNotFoundError:
        return
    except PermissionError:
        _make_mutable(directory, name)
        remove(name, dir_fd=directory)


def _make_mutable(directory: int, name: str) -> None:
    status = os.lstat(name, dir_fd=directory)
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        descriptor = os.open(name, _FILE, dir_fd=directory)
        try:
            _mutable(descriptor)
        finally:
            os.close(descriptor)


def _mutable(descriptor: int) -> None:
    flags = array.array("l", [0])
    try:
        fcntl.ioctl(descriptor, _GET_FLAGS, flags, True)
        if flags[0] & _IMMUTABLE_OR_APPEND:
            flags[0] &= ~_IMMUTABLE_OR_APPEND
            fcntl.ioctl(descriptor, _SET_FLAGS, flags, True)
    except OSError:
        return  # a file system without such flags
