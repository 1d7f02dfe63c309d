"""Faults on their way to whoever asks: on disk from the moment they are read until they are acknowledged.

Always holds: a line of the kernel's log becomes one fault, with one time, however often we start; nothing is returned
that is not on disk. Addresses remember their serial number, because a card that fell off the bus cannot say it."""

import threading
from datetime import timedelta
from pathlib import Path

import msgspec

from gpuaas.contracts.tasks.topology import FaultKind, GpuFault
from gpuaas.infra.hosts.linux import readings
from gpuaas.infra.hosts.linux.driver_faults import read_line
from gpuaas.infra.hosts.linux.kernel_log import read_kernel_log
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.infra.hosts.linux.whole_file import write_whole
from gpuaas.kit import clock, log

MOST_PENDING = 500


class _State(msgspec.Struct):
    boot_id: str = ""
    next_sequence: int = 0
    pending: list[GpuFault] = msgspec.field(default_factory=list)
    serials: dict[str, str] = msgspec.field(default_factory=dict)


class FaultJournal:
    def __init__(self, layout: Layout, state: Path) -> None:
        self._layout = layout
        self._file = state / "faults.json"
        self._turn = threading.Lock()
        self._state = self._read()

    def learn(self, serials: dict[str, str]) -> None:
        """Which serial number is at which address."""
        with self._turn:
            if any(self._state.serials.get(address) != serial for address, serial in serials.items()):
                self._state.serials |= serials
                self._save()

    def pending(self) -> list[GpuFault]:
        with self._turn:
            self._catch_up()
            return list(self._state.pending)

    def acknowledge(self, faults: list[GpuFault]) -> None:
        with self._turn:
            known = {(fault.serial, fault.code, fault.at, fault.detail) for fault in faults}
            left = [one for one in self._state.pending if (one.serial, one.code, one.at, one.detail) not in known]
            if len(left) != len(self._state.pending):
                self._state.pending = left
                self._save()

    def _catch_up(self) -> None:
        boot_id = readings.text(self._layout.proc / "sys/kernel/random/boot_id")
        next_sequence = self._state.next_sequence if boot_id == self._state.boot_id else 0
        booted = clock.now() - timedelta(seconds=_uptime(self._layout))
        found: list[GpuFault] = []
        first = next_sequence
        for record in read_kernel_log(self._layout.dev / "kmsg"):
            if record.sequence < first:
                continue
            next_sequence = record.sequence + 1
            fault = read_line(record.message)
            if fault is not None:
                at = booted + timedelta(microseconds=record.microseconds)
                serial = self._state.serials.get(fault.address, f"pci-{fault.address}")
                found.append(GpuFault(serial=serial, kind=fault.kind, code=fault.code, detail=fault.detail, at=at))
        if found or boot_id != self._state.boot_id or next_sequence != self._state.next_sequence:
            self._state.boot_id, self._state.next_sequence = boot_id, next_sequence
            self._state.pending = _bounded(self._state.pending + found)
            self._save()

    def _read(self) -> _State:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_State)
        except FileNotFoundError:
            return _State()
        except msgspec.DecodeError as error:
            log.get_logger().error("the journal of faults is damaged; the log is read from its start", why=str(error))
            return _State()

    def _save(self) -> None:
        write_whole(self._file, msgspec.json.encode(self._state))


def _bounded(faults: list[GpuFault]) -> list[GpuFault]:
    """Too many: an application's own go first, then the oldest."""
    if len(faults) > MOST_PENDING:
        faults = [fault for fault in faults if fault.kind is not FaultKind.APPLICATION]
    return faults[-MOST_PENDING:]


def _uptime(layout: Layout) -> float:
    words = readings.text(layout.proc / "uptime", "0").split()
    return float(words[0]) if words else 0.0
