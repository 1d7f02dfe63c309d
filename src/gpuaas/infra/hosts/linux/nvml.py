"""NVIDIA's management library, when the host has it: loaded when first asked for, absent without an error.

Every reading may be missing: a card without a sensor, a card that fell off the bus. Nothing here raises but `open_nvml`
of a library that cannot be loaded, which answers None."""

import ctypes
import threading
from dataclasses import dataclass
from typing import Any

from gpuaas.kit import log

LIBRARY = "libnvidia-ml.so.1"
_TEXT = 96
_TEMPERATURE_GPU = 0
_UNCORRECTED, _VOLATILE = 1, 0
_TOO_SMALL = 7
_MOST_LINKS = 36


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


@dataclass(frozen=True)
class Card:
    """What a card says of itself now; None where it says nothing."""

    name: str
    serial: str
    uuid: str
    memory_bytes: int
    memory_used_bytes: int | None
    temperature_c: float | None
    power_w: float | None
    utilization_percent: float | None
    ecc_uncorrected: int | None
    index: int | None = None
    """The number NVIDIA's tools have for it."""
    processes: int | None = None
    """How many programs compute on it."""
    remap_pending: bool | None = None
    """A row waits to be remapped, or a page to be retired, by a reset."""
    remap_failed: bool | None = None
    pcie_width: int | None = None
    pcie_width_most: int | None = None
    nvlinks: tuple[bool, ...] = ()
    """Of each link it has, whether it is up."""


class Nvml:
    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._turn = threading.Lock()

    @property
    def driver_version(self) -> str:
        buffer = ctypes.create_string_buffer(_TEXT)
        asked = self._call("nvmlSystemGetDriverVersion", buffer, ctypes.c_uint(_TEXT))
        return buffer.value.decode(errors="replace") if asked else ""

    def card(self, address: str) -> Card | None:
        """The card at this PCI address; None when the driver cannot reach it."""
        with self._turn:
            handle = ctypes.c_void_p()
            found = self._call("nvmlDeviceGetHandleByPciBusId_v2", address.encode(), ctypes.byref(handle))
            if not found:
                return None
            memory, use = _Memory(), _Utilization()
            has_memory = self._call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
            has_use = self._call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(use))
            power = self._number("nvmlDeviceGetPowerUsage", handle)
            pending, broken = self._remapping(handle)
            return Card(
                name=self._text("nvmlDeviceGetName", handle),
                serial=self._text("nvmlDeviceGetSerial", handle),
                uuid=self._text("nvmlDeviceGetUUID", handle),
                memory_bytes=memory.total if has_memory else 0,
                memory_used_bytes=memory.used if has_memory else None,
                temperature_c=self._number("nvmlDeviceGetTemperature", handle, ctypes.c_uint(_TEMPERATURE_GPU)),
                power_w=None if power is None else power / 1000,
                utilization_percent=float(use.gpu) if has_use else None,
                ecc_uncorrected=self._errors(handle),
                index=self._count("nvmlDeviceGetIndex", handle),
                processes=self._processes(handle),
                remap_pending=pending,
                remap_failed=broken,
                pcie_width=self._count("nvmlDeviceGetCurrPcieLinkWidth", handle),
                pcie_width_most=self._count("nvmlDeviceGetMaxPcieLinkWidth", handle),
                nvlinks=self._links(handle),
            )

    def _remapping(self, handle: ctypes.c_void_p) -> tuple[bool | None, bool | None]:
        """Rows since Ampere, pages before; a card does one of both."""
        rows = [ctypes.c_uint() for _ in range(4)]  # corrected, uncorrected, pending, failed
        if self._call("nvmlDeviceGetRemappedRows", handle, *map(ctypes.byref, rows)):
            return bool(rows[2].value), bool(rows[3].value)
        pages = self._count("nvmlDeviceGetRetiredPagesPendingStatus", handle)
        return (None if pages is None else bool(pages)), None

    def _processes(self, handle: ctypes.c_void_p) -> int | None:
        count = ctypes.c_uint(0)
        function = getattr(self._library, "nvmlDeviceGetComputeRunningProcesses_v3", None)
        if function is None:
            return None
        code = function(handle, ctypes.byref(count), None)  # no room given: it says how many there are
        return count.value if code in (0, _TOO_SMALL) else None

    def _links(self, handle: ctypes.c_void_p) -> tuple[bool, ...]:
        links = []
        for link in range(_MOST_LINKS):
            active = ctypes.c_uint()
            if not self._call("nvmlDeviceGetNvLinkState", handle, ctypes.c_uint(link), ctypes.byref(active)):
                break
            links.append(bool(active.value))
        return tuple(links)

    def _count(self, name: str, handle: ctypes.c_void_p) -> int | None:
        value = self._number(name, handle)
        return None if value is None else int(value)

    def _errors(self, handle: ctypes.c_void_p) -> int | None:
        count = ctypes.c_ulonglong()
        kind = (ctypes.c_uint(_UNCORRECTED), ctypes.c_uint(_VOLATILE))
        return count.value if self._call("nvmlDeviceGetTotalEccErrors", handle, *kind, ctypes.byref(count)) else None

    def _text(self, name: str, handle: ctypes.c_void_p) -> str:
        buffer = ctypes.create_string_buffer(_TEXT)
        asked = self._call(name, handle, buffer, ctypes.c_uint(_TEXT))
        return buffer.value.decode(errors="replace").strip() if asked else ""

    def _number(self, name: str, handle: ctypes.c_void_p, *more: ctypes.c_uint) -> float | None:
        value = ctypes.c_uint()
        return float(value.value) if self._call(name, handle, *more, ctypes.byref(value)) else None

    def _call(self, name: str, *arguments: Any) -> bool:
        """Any: ctypes has no type for what a C function takes."""
        function = getattr(self._library, name, None)
        return function is not None and function(*arguments) == 0


def open_nvml(library: str = LIBRARY) -> Nvml | None:
    try:
        loaded = ctypes.CDLL(library)
    except OSError:
        return None
    if loaded.nvmlInit_v2() != 0:
        log.get_logger().warning("NVML is installed but does not start", library=library)
        return None
    return Nvml(loaded)
