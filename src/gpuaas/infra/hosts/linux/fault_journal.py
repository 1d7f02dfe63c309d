"""Faults on their way to whoever asks: on disk from the moment they are read until they are acknowledged.

Always holds: a line of the kernel's log becomes one fault, with one time, however often we start; nothing is returned
that is not on disk. Addresses remember their serial number, because a card that fell off the bus cannot say it."""

import threading
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from gpuaas.contracts.tasks.topology import FaultKind, GpuFault
from gpuaas.infra.hosts.linux import readings
from gpuaas.infra.hosts.linux.driver_faults import read_line
from gpuaas.infra.hosts.linux.kernel_log import KernelLog
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.infra.hosts.linux.whole_file import write_whole
from gpuaas.kit import clock, log

MOST_PENDING = 500
SAME_AGAIN = timedelta(minutes=1)
"""A program that crashes in a loop is told of once in this time: it fills neither our disk nor anybody's books."""


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
        self._log = KernelLog(layout.dev / "kmsg")
        self._told: dict[tuple[str, str], datetime] = {}
        self._state = self._read()

    def learn(self, serials: dict[str, str]) -> None:
        """Which serial number is at which address."""
        with self._turn:
            if any(self._state.serials.get(address) != serial for address, serial in serials.items()):
                self._state.serials |= serials
                self._save()

    def pending(self) -> list[GpuFault]:
        """What speaks against a GPU first, then the applications' own; each in order."""
        with self._turn:
            self._catch_up()
            return sorted(self._state.pending, key=lambda fault: fault.kind is FaultKind.APPLICATION)

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
        for record in self._log.read():
            if record.sequence < first:
                continue
            next_sequence = record.sequence + 1
            fault = read_line(record.message)
            if fault is not None:
                at = booted + timedelta(microseconds=record.microseconds)
                serial = self._state.serials.get(fault.address, f"pci-{fault.address}")
                told = GpuFault(serial=serial, kind=fault.kind, code=fault.code, detail=fault.detail, at=at)
                if not self._again(told):
                    found.append(told)
        # Lines without a fault may be read again after a restart: they are not worth a write to the disk each.
        changed = bool(found) or boot_id != self._state.boot_id
        self._state.boot_id, self._state.next_sequence = boot_id, next_sequence
        if changed:
            self._state.pending = _bounded(self._state.pending + found)
            self._save()

    def _again(self, fault: GpuFault) -> bool:
        if fault.kind is not FaultKind.APPLICATION:
            return False
        last = self._told.get((fault.serial, fault.code))
        if last is not None and timedelta(0) <= fault.at - last < SAME_AGAIN:
            return True
        self._told[fault.serial, fault.code] = fault.at
        return False

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
    """Too many: an application's own go first, then the oldest that were told of before."""
    if len(faults) <= MOST_PENDING:
        return faults
    serious = [fault for fault in faults if fault.kind is not FaultKind.APPLICATION]
    firsts: dict[tuple[str, str], int] = {}
    for number, fault in enumerate(serious):
        firsts.setdefault((fault.serial, fault.code), number)
    kept = set(list(firsts.values())[:MOST_PENDING])
    others = [number for number in range(len(serious)) if number not in kept]
    kept.update(others[max(0, len(others) - (MOST_PENDING - len(kept))) :])
    return [fault for number, fault in enumerate(serious) if number in kept]


def _uptime(layout: Layout) -> float:
    words = readings.text(layout.proc / "uptime", "0").split()
    return float(words[0]) if words else 0.0
