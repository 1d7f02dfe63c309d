"""How a linux host is: health, numbers and cleaning, on a recorded server and with a stand-in for NVML in C."""

import asyncio
import contextlib
import os
import threading
from pathlib import Path

import pytest

from gpuaas.contracts.tasks.catalogue import CleaningMethod
from gpuaas.contracts.tasks.topology import Check
from gpuaas.infra.hosts.linux.driver_thread import DriverThread
from gpuaas.infra.hosts.linux.host import LinuxHost, LinuxSettings
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.ports.host import Host, HostFailed
from tests.infra.hosts_linux.recorded import GPUS, RecordedHost
from tests.infra.hosts_linux.test_driver_faults import XID
from tests.infra.hosts_linux.test_inspection import host_of


async def quiet(name: str, detail: str) -> None:
    assert name


def failed(checks: list[Check]) -> list[str]:
    return [check.name for check in checks if not check.passed]


async def test_a_host_whose_gpus_are_free_is_healthy(tmp_path: Path) -> None:
    health = await host_of(RecordedHost(tmp_path / "root"), tmp_path / "state").health([], load=False, tell=quiet)
    assert health.healthy, health
    assert len(health.gpus) == 8
    assert {"disk", "memory", "clock", "memory_errors", "gpus", "device_access"} == {
        check.name for check in health.checks
    }


async def test_only_the_gpu_that_was_lost_is_unhealthy(tmp_path: Path) -> None:
    recorded = RecordedHost(tmp_path / "root")
    host = host_of(recorded, tmp_path / "state")
    serials = [gpu.serial for gpu in (await host.inspect()).gpus]
    recorded.lose(GPUS[2])
    recorded.kernel_log(XID + "79, GPU has fallen off the bus.")
    health = await host.health(serials, load=False, tell=quiet)
    assert [gpu.serial for gpu in health.gpus if not gpu.healthy] == [serials[2]]
    assert [fault.code for fault in health.faults] == ["XID 79"]


async def test_a_serious_fault_fails_its_gpu_and_an_applications_own_does_not(tmp_path: Path) -> None:
    recorded = RecordedHost(tmp_path / "root")
    recorded.kernel_log(XID + "48, DBE", "NVRM: Xid (PCI:0000:18:00): 13, an illegal address")
    health = await host_of(recorded, tmp_path / "state").health([], load=False, tell=quiet)
    assert [failed(gpu.checks) for gpu in health.gpus] == [[], [], ["faults"], [], [], [], [], []]


async def test_memory_errors_and_a_clock_that_ran_back_are_told(tmp_path: Path) -> None:
    recorded = RecordedHost(tmp_path / "root")
    recorded.write("sys/devices/system/edac/mc/mc1/ue_count", "2\n")
    host = host_of(recorded, tmp_path / "state")
    assert failed((await host.health([], load=False, tell=quiet)).checks) == ["memory_errors"]
    later = os.stat(tmp_path / "state/clock").st_mtime + 3600
    os.utime(tmp_path / "state/clock", (later, later))
    assert failed((await host.health([], load=False, tell=quiet)).checks) == ["clock", "memory_errors"]


async def test_nvml_tells_what_a_card_is_and_how_it_is(tmp_path: Path, nvml: str) -> None:
    recorded = RecordedHost(tmp_path / "root", driver="nvidia")
    host: Host = LinuxHost(tmp_path / "state", LinuxSettings(layout=Layout(root=recorded.root), nvml_library=nvml))
    found = await host.inspect()
    assert found.driver_version == "550.90.07"
    assert [gpu.serial for gpu in found.gpus[:3]] == ["1653024999999", "GPU-0d1f", "1653024000002"]
    assert (found.gpus[0].model, found.gpus[0].memory_bytes) == ("NVIDIA H200", 151397597184)
    health = await host.health([], load=False, tell=quiet)
    assert [failed(gpu.checks) for gpu in health.gpus[:3]] == [
        [],
        ["temperature", "ecc", "remapping", "pcie", "nvlink"],
        ["nvml"],
    ]
    assert (health.gpus[0].temperature_c, health.gpus[0].power_w, health.gpus[1].ecc_uncorrected) == (41, 75.5, 2)
    numbers = await host.metrics()
    assert numbers["gpu.1653024999999.utilisation_percent"] == 7
    assert numbers["gpu.GPU-0d1f.temperature_c"] == 99
    assert "gpu.1653024000002.temperature_c" not in numbers


async def test_numbers_of_the_host_are_of_now(tmp_path: Path) -> None:
    numbers = await host_of(RecordedHost(tmp_path / "root"), tmp_path / "state").metrics()
    assert (numbers["host.load1"], numbers["host.uptime_seconds"]) == (1.5, 1000)
    assert (numbers["host.network_received_bytes"], numbers["host.network_sent_bytes"]) == (100, 200)
    assert numbers["host.memory_available_bytes"] == 2001401232 * 1024
    assert 0 < numbers["host.disk_free_bytes"] <= numbers["host.disk_total_bytes"]


async def test_a_reset_is_told_with_its_evidence_and_is_no_erase(tmp_path: Path) -> None:
    recorded = RecordedHost(tmp_path / "root")
    host = host_of(recorded, tmp_path / "state")
    serial = (await host.inspect()).gpus[0].serial
    memory, reset = await host.sanitise([serial], reimage=False, tell=quiet)
    assert (memory.method, memory.clean) == (CleaningMethod.MEMORY_CLEARED, False)
    assert "bound to vfio-pci" in memory.evidence
    assert (reset.method, reset.clean, reset.target) == (CleaningMethod.RESET, True, serial)
    assert reset.evidence == "reset by flr bus; it answers as 10de"
    assert (recorded.root / "sys/bus/pci/devices" / GPUS[0] / "reset").read_text() == "1"


@pytest.mark.parametrize("trouble", ["gone from the bus", "no way to reset", "its driver has it"])
async def test_a_reset_that_did_not_happen_is_not_clean(tmp_path: Path, trouble: str) -> None:
    recorded = RecordedHost(tmp_path / "root", driver="nouveau" if trouble == "its driver has it" else "vfio-pci")
    host = host_of(recorded, tmp_path / "state")
    serial = (await host.inspect()).gpus[0].serial
    device = recorded.root / "sys/bus/pci/devices" / GPUS[0]
    if trouble == "gone from the bus":
        (device / "config").write_bytes(b"\xff" * 64)
    elif trouble == "no way to reset":
        (device / "reset").unlink()
    cleanings = await host.sanitise([serial], reimage=False, tell=quiet)
    assert [cleaning.clean for cleaning in cleanings] == [False, False]


async def test_what_is_not_there_is_neither_cleaned_nor_given(tmp_path: Path) -> None:
    host = host_of(RecordedHost(tmp_path / "root"), tmp_path / "state")
    (gone,) = await host.sanitise(["nobody"], reimage=False, tell=quiet)
    assert (gone.target, gone.clean) == ("nobody", False)
    with pytest.raises(HostFailed, match="not on this host"):
        await host.provision("gx1", [], ["nobody"], tell=quiet)
    with pytest.raises(HostFailed) as refused:
        await host.sanitise([], reimage=True, tell=quiet)
    assert refused.value.code == "reimage_unsupported"
    assert await host.sanitise([], reimage=False, tell=quiet) == []


async def test_a_driver_that_hangs_stops_nobody_but_who_asks_for_it(tmp_path: Path, nvml_hanging: str) -> None:
    recorded = RecordedHost(tmp_path / "root", driver="nvidia")
    settings = LinuxSettings(layout=Layout(root=recorded.root), nvml_library=nvml_hanging, driver_patience_seconds=0.2)
    host = LinuxHost(tmp_path / "state", settings)
    assert (await host.metrics())["host.load1"] == 1.5
    (tmp_path / "hang").touch()
    before = threading.active_count()
    for _ in range(50):
        with pytest.raises(HostFailed) as failure:
            await host.metrics()
        assert failure.value.code == "driver_hangs"
    with pytest.raises(HostFailed):
        await host.health([], load=False, tell=quiet)
    assert threading.active_count() <= before + 1, "one thread is lost, not one for each who asks"
    recorded.kernel_log(XID + "79, GPU has fallen off the bus.")
    assert [fault.code for fault in await host.faults()] == ["XID 79"]
    assert await host.accounts() == []
    (tmp_path / "hang").unlink()
    while True:
        with contextlib.suppress(HostFailed):
            assert (await host.metrics())["host.load1"] == 1.5
            break
        await asyncio.sleep(0.02)


async def test_what_goes_wrong_in_a_driver_is_heard_by_who_asked() -> None:
    driver = DriverThread(5.0)

    def broken() -> None:
        raise HostFailed("sysfs", "gone while it was read")

    for _ in range(2):
        with pytest.raises(HostFailed, match="gone while it was read"):
            await driver.run(broken)
    assert await driver.run(lambda: 7) == 7


async def test_who_gives_up_a_call_does_not_make_it_hang_for_others() -> None:
    driver, go_on = DriverThread(5.0), threading.Event()
    first = asyncio.create_task(driver.run(go_on.wait))
    await asyncio.sleep(0.05)
    first.cancel()
    second = asyncio.create_task(driver.run(lambda: 7))
    await asyncio.sleep(0.05)
    go_on.set()
    assert await second == 7
