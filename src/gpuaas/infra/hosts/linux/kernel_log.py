"""The kernel's own log, read where the last reading ended and without waiting.

Only records of the kernel count: anybody with the right to write to /dev/kmsg shows up there too, with another
facility. A record is known by its sequence number and the boot it belongs to."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_RECORD_BYTES = 8192
_KERNEL_FACILITY = 0
MOST_RECORDS = 200_000


@dataclass(frozen=True)
class LogRecord:
    sequence: int
    microseconds: int
    """Since the boot."""
    message: str


def parse_record(raw: bytes) -> LogRecord | None:
    """One record of /dev/kmsg: `priority,sequence,microseconds,flags;message`, with details on further lines."""
    head, _, message = raw.partition(b";")
    fields = head.split(b",")
    try:
        priority, sequence, microseconds = (int(field) for field in fields[:3])
    except ValueError:
        return None
    if priority >> 3 != _KERNEL_FACILITY:
        return None
    return LogRecord(sequence, microseconds, message.split(b"\n")[0].decode(errors="replace"))


class KernelLog:
    """Each call of `read` gives what is new since the last; the first, all there is. A recorded log is a plain file
    with a record on each line, and read from its start each time."""

    def __init__(self, device: Path) -> None:
        self._device = device
        self._descriptor: int | None = None

    def read(self) -> Iterator[LogRecord]:
        if self._device.is_file():
            yield from filter(None, map(parse_record, self._device.read_bytes().splitlines()))
            return
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self._device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                return
        for _ in range(MOST_RECORDS):
            try:
                record = parse_record(os.read(self._descriptor, _RECORD_BYTES))
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue  # overwritten while we read: the next one is the oldest there is
            if record is not None:
                yield record

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
