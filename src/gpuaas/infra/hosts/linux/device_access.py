"""Who may open which GPU on this host: the account that was given it, and root.

Always holds, after `apply`: the device files of a GPU belong to root and to the group of the one account that has it,
0660; those of a GPU nobody has are root's alone. Files all GPUs share (nvidiactl, nvidia-uvm, kfd) are as the driver
made them: without one of the others they open nothing. Applying again changes nothing; what a driver or udev has opened
meanwhile is closed."""

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuaas.contracts.tasks.topology import Check, Gpu
from gpuaas.infra.hosts.linux import readings
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.ports.host import HostFailed

HELD, FREE = 0o660, 0o600
_MINOR = "Device Minor:"
_REOPENS = "ModifyDeviceFiles: 1"


class DeviceAccess:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def apply(self, gpus: Sequence[Gpu], holders: Mapping[str, int]) -> None:
        """`holders`: by serial number, the group of the account that has the GPU."""
        for gpu in gpus:
            group = holders.get(gpu.serial, 0)
            for file in self.files(gpu):
                _set(file, group, HELD if group else FREE)

    def open_to_others(self, gpus: Sequence[Gpu], holders: Mapping[str, int]) -> list[str]:
        """Device files that are not as they should be, each with what it is."""
        found = []
        for gpu in gpus:
            group = holders.get(gpu.serial, 0)
            for file in self.files(gpu):
                status = file.lstat()
                is_now = (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode))
                if is_now != (0, group, HELD if group else FREE):
                    found.append(f"{file.name} is {is_now[0]}:{is_now[1]} {is_now[2]:04o}")
        return found

    def check(self, gpus: Sequence[Gpu], holders: Mapping[str, int]) -> Check:
        """Put right what is wrong, and say what it was. What a tenant could undo has not passed."""
        found = self.open_to_others(gpus, holders)
        try:
            self.apply(gpus, holders)
        except HostFailed as failure:
            return Check(name="device_access", passed=False, detail=str(failure)[:500])
        left = self.open_to_others(gpus, holders)
        undone = self._undone() if sum(bool(self.files(gpu)) for gpu in gpus) > 1 else ""
        said = [f"closed: {', '.join(found)}"] if found else ["each GPU is open to whom it was given"]
        detail = "; ".join(left or filter(None, [undone, *said]))
        return Check(name="device_access", passed=not left and not undone, detail=detail[:500])

    def files(self, gpu: Gpu) -> list[Path]:
        """Through which the GPU itself can be reached; none where its driver has made none."""
        names = []
        told = readings.text(self._layout.proc / "driver/nvidia/gpus" / gpu.address / "information")
        minors = [line.partition(":")[2].strip() for line in told.splitlines() if line.startswith(_MINOR)]
        names += [self._layout.dev / f"nvidia{minor}" for minor in minors if minor.isdigit()]
        drm = readings.children(self._layout.sys / "bus/pci/devices" / gpu.address / "drm")
        names += [self._layout.dev / "dri" / entry.name for entry in drm if entry.name.startswith(("card", "render"))]
        return [file for file in names if _is_device(file)]

    def _undone(self) -> str:
        """NVIDIA's driver has its files made anew, open to all, for whoever asks; unless it was told not to."""
        told = readings.text(self._layout.proc / "driver/nvidia/params")
        advice = "any account can have the driver open them all again: load it with NVreg_ModifyDeviceFiles=0"
        return advice if _REOPENS in told else ""


def _is_device(file: Path) -> bool:
    try:
        return stat.S_ISCHR(file.lstat().st_mode)
    except OSError:
        return False


def _set(file: Path, group: int, mode: int) -> None:
    """Through one descriptor, which is no link and opens no device. Closed first: between two owners nobody gets in."""
    try:
        descriptor = os.open(file, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (0, group, mode):
                return
            here = f"/proc/self/fd/{descriptor}"
            os.chmod(here, FREE)
            os.chown(here, 0, group)
            os.chmod(here, mode)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise HostFailed("device_access", f"{file} cannot be given or closed: {error.strerror}") from None
