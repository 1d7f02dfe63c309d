"""What is mounted where, as the kernel tells it, and which of it holds files of this host alone."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from gpuaas.infra.hosts.linux.command import run
from gpuaas.infra.hosts.linux.layout import Layout

_LOCAL = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "tmpfs", "ramfs", "overlay", "devtmpfs", "vfat"}
)
"""Network and FUSE file systems are somebody else's: shared storage is emptied by whoever serves it."""
_ESCAPE = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    id: int
    device: str
    point: Path
    kind: str
    writable: bool

    @property
    def local(self) -> bool:
        return self.kind in _LOCAL


def parse_mounts(mountinfo: bytes) -> list[Mount]:
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(b" - ")
        fields, source = before.split(b" "), after.split(b" ")
        if len(fields) >= 6 and source:
            point = _ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), fields[4])
            found.append(
                Mount(
                    id=int(fields[0]),
                    device=fields[2].decode(),
                    point=Path(os.fsdecode(point)),
                    kind=source[0].decode(),
                    writable=b"rw" in fields[5].split(b","),
                )
            )
    return found


def read_mounts(layout: Layout) -> list[Mount]:
    try:
        return parse_mounts((layout.proc / "self/mountinfo").read_bytes())
    except FileNotFoundError:
        return []


def unmount_below(layout: Layout, directory: Path) -> int:
    """Take away whatever is mounted at or below the directory, the newest first; how many there were."""
    below = [mount for mount in read_mounts(layout) if mount.point == directory or directory in mount.point.parents]
    for mount in reversed(below):
        run(["umount", "--lazy", str(mount.point)])
    return len(below)
