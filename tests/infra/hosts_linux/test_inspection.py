"""What the linux host says of hardware: recorded servers, and the pure rules behind it."""

import struct
from pathlib import Path

import msgspec
import pytest

from gpuaas.contracts.tasks.topology import Topology
from gpuaas.infra.hosts.linux.host import LinuxHost, LinuxSettings
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.infra.hosts.linux.mounts import parse_mounts
from gpuaas.infra.hosts.linux.pairing import Located, pair
from gpuaas.infra.hosts.linux.pci import config_serial, vpd_serial
from tests.infra.hosts_linux.recorded import BOOT_ID, GPUS, RecordedHost, vpd


def host_of(recorded: RecordedHost, state: Path) -> LinuxHost:
    return LinuxHost(state, LinuxSettings(layout=Layout(root=recorded.root), nvml_library="libabsent.so"))


async def test_a_server_with_eight_gpus_is_told_as_it_is(tmp_path: Path) -> None:
    found = await host_of(RecordedHost(tmp_path / "root"), tmp_path / "state").inspect()
    assert (found.hostname, found.os, found.kernel) == ("gpu-a1", "Ubuntu 24.04.1 LTS", "6.8.0-45-generic")
    assert (found.boot_id, found.cpu_count, found.numa_nodes, found.iommu) == (BOOT_ID, 4, 2, True)
    assert found.memory_bytes == 2113401232 * 1024
    assert [gpu.address for gpu in found.gpus] == GPUS
    assert [gpu.numa for gpu in found.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert {gpu.model for gpu in found.gpus} == {"GH100 [H200 SXM 141GB]"}
    assert {(gpu.vendor, gpu.driver) for gpu in found.gpus} == {("nvidia", "vfio-pci")}
    assert [gpu.serial for gpu in found.gpus] == [f"165302400{index:04d}" for index in range(8)]
    assert len({gpu.iommu_group for gpu in found.gpus} - {-1}) == 8
    assert (len(found.nvmes), len(found.fabrics)) == (9, 24)
    assert {disk.size_bytes for disk in found.nvmes} == {3_840_755_982_336}
    assert found == msgspec.json.decode(msgspec.json.encode(found), type=Topology)


async def test_each_gpu_has_the_disk_and_a_virtual_function_behind_its_own_switch(tmp_path: Path) -> None:
    found = await host_of(RecordedHost(tmp_path / "root"), tmp_path / "state").inspect()
    bus = [int(address[5:7], 16) for address in GPUS]
    assert [gpu.nvme for gpu in found.gpus] == [f"0000:{number + 1:02x}:00.0" for number in bus]
    assert [gpu.fabric for gpu in found.gpus] == [f"0000:{number + 2:02x}:00.1" for number in bus]
    virtual = {fabric.address: fabric.virtual for fabric in found.fabrics}
    assert all(gpu.fabric is not None and virtual[gpu.fabric] for gpu in found.gpus)


async def test_the_disk_the_host_runs_from_is_nobodys_pair(tmp_path: Path) -> None:
    recorded = RecordedHost(tmp_path / "root")
    first = recorded.root / "sys/bus/pci/devices" / f"0000:{int(GPUS[0][5:7], 16) + 1:02x}:00.0"
    first.unlink()
    found = await host_of(recorded, tmp_path / "state").inspect()
    assert "0000:02:00.0" in {disk.address for disk in found.nvmes}
    assert found.gpus[0].nvme is None


async def test_a_card_without_a_serial_number_keeps_the_same_made_up_one(tmp_path: Path) -> None:
    recorded = RecordedHost(tmp_path / "root")
    for address in GPUS[:2]:
        (recorded.root / "sys/bus/pci/devices" / address / "vpd").unlink()
    first = await host_of(recorded, tmp_path / "state").inspect()
    again = await host_of(recorded, tmp_path / "other").inspect()
    serials = [gpu.serial for gpu in first.gpus]
    assert serials == [gpu.serial for gpu in again.gpus]
    assert len(set(serials)) == 8
    assert serials[0].startswith("pci-")


async def test_an_empty_tree_is_a_host_without_anything(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    host = LinuxHost(tmp_path / "state", LinuxSettings(layout=Layout(root=tmp_path / "root"), nvml_library="libno.so"))
    found = await host.inspect()
    assert (found.gpus, found.nvmes, found.fabrics, found.numa_nodes) == ([], [], [], 1)
    assert await host.faults() == []


def at(address: str, bridges: str = "", numa: int = -1) -> Located:
    return Located(address, tuple(bridges), numa)


PAIRS: list[tuple[str, list[Located], list[Located], dict[str, str]]] = [
    ("nothing", [], [], {}),
    ("no device", [at("g1", "a", 0)], [], {}),
    ("the switch beats the node", [at("g1", "ab", 0)], [at("d1", "x", 0), at("d2", "ac", 0)], {"g1": "d2"}),
    ("the deeper switch wins", [at("g1", "abc", 0)], [at("d1", "ax", 0), at("d2", "aby", 0)], {"g1": "d2"}),
    ("the node, when no switch is shared", [at("g1", "a", 1)], [at("d1", "x", 0), at("d2", "y", 1)], {"g1": "d2"}),
    ("another node is no pair", [at("g1", "a", 0)], [at("d1", "x", 1)], {}),
    ("an unknown node is no node", [at("g1", "a")], [at("d1", "x")], {}),
    ("each device once", [at("g1", "a", 0), at("g2", "b", 0)], [at("d1", "x", 0)], {"g1": "d1"}),
    (
        "a neighbour does not take what is behind my switch",
        [at("g1", "x", 0), at("g2", "b", 0)],
        [at("d1", "b", 0), at("d2", "z", 0)],
        {"g1": "d2", "g2": "d1"},
    ),
    (
        "two behind one switch share its two devices in order",
        [at("g2", "s", 0), at("g1", "s", 0)],
        [at("d2", "s", 0), at("d1", "s", 0)],
        {"g1": "d1", "g2": "d2"},
    ),
]


@pytest.mark.parametrize(("name", "gpus", "devices", "expected"), PAIRS, ids=[row[0] for row in PAIRS])
def test_devices_are_paired_by_nearness(
    name: str, gpus: list[Located], devices: list[Located], expected: dict[str, str]
) -> None:
    assert pair(gpus, devices) == expected
    assert pair(gpus[::-1], devices[::-1]) == expected


def test_serial_numbers_are_read_from_what_the_device_tells() -> None:
    assert vpd_serial(vpd("1653024001234")) == "1653024001234"
    assert vpd_serial(b"") == vpd_serial(b"\x90\xff\xff") == vpd_serial(b"\xff" * 64) == vpd_serial(vpd("a\x01b")) == ""
    capability = struct.pack("<III", 0x0003 | 1 << 16, 0x48B02D00, 0x00000A11)
    assert config_serial(bytes(0x100) + struct.pack("<I", 0x0001 | 0x110 << 20) + bytes(12) + capability) == (
        "00000a1148b02d00"
    )
    assert config_serial(bytes(4096)) == config_serial(b"\xff" * 4096) == config_serial(bytes(64)) == ""


def test_serials_survive_any_cut_of_the_data() -> None:
    whole = vpd("1653024001234")
    for length in range(len(whole)):
        assert whole[:length].endswith(vpd_serial(whole[:length]).encode()) or length == len(whole) - 1
        assert len(config_serial(bytes(0x100) + whole[:length])) in (0, 16)


def test_mount_points_with_odd_names_are_read() -> None:
    lines = b"35 30 0:50 / /x/a\\040b\\134c rw,nosuid - tmpfs tmpfs rw\n36 30 0:51 / /x ro - nfs4 a:/b rw\nbroken\n"
    one, two = parse_mounts(lines)
    assert (str(one.point), one.local, one.writable) == ("/x/a b\\c", True, True)
    assert (two.local, two.writable) == (False, False)
