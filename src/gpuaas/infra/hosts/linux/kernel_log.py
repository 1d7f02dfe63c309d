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


def read_kernel_log(device: Path) -> Iterator[LogRecord]:
    """All there is now. A recorded log is a plain file with a record on each line."""
    if device.is_file():
        yield from filter(None, map(parse_record, device.read_bytes().splitlines()))
        return
    try:
        descriptor = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for _ in range(MOST_RECORDS):
            try:
                record = parse_record(os.read(descriptor, _RECORD_BYTES))
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue  # overwritten while we read: the next one is the oldest there is
            if record is not None:
                yield record
    finally:
        os.close(descriptor)
