"""A recorded host: the files of /sys, /proc, /etc and /dev of a server with eight GPUs on two NUMA nodes, written down
under any directory. Per GPU one switch with one NVMe and one InfiniBand card split into two virtual functions."""

import os
import struct
from pathlib import Path

BOOT_ID = "6f1e9c0a-3b53-4b8e-9a0d-1c7f0d6a5e11"
GPUS = [f"0000:{bus:02x}:00.0" for bus in (0x18, 0x2A, 0x3A, 0x5D, 0x9A, 0xAB, 0xBA, 0xDB)]
GIB = 1 << 30


class RecordedHost:
    def __init__(self, root: Path, *, driver: str = "vfio-pci") -> None:
        self.root = root
        self.driver = driver
        self._group = 0
        self._general()
        for index, address in enumerate(GPUS):
            self._gpu(index, address)
        self._system_disk()
        self._console_card()
        self._ethernet()

    def write(self, path: str, content: str | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def kernel_log(self, *lines: str) -> None:
        """Records as /dev/kmsg gives them, numbered from 1."""
        records = [f"4,{number},{number * 1_000_000},-;{line}\n" for number, line in enumerate(lines, start=1)]
        self.write("dev/kmsg", "".join(records))

    def lose(self, address: str) -> None:
        """The GPU falls off the bus."""
        (self.root / "sys/bus/pci/devices" / address).unlink()

    def _general(self) -> None:
        self.write("etc/os-release", 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n')
        self.write("etc/machine-id", "b08dfa6083e7567a1921a715000001fb\n")
        self.write("proc/sys/kernel/hostname", "gpu-a1\n")
        self.write("proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
        self.write("proc/sys/kernel/random/boot_id", BOOT_ID + "\n")
        self.write(
            "proc/meminfo", "MemTotal:       2113401232 kB\nMemAvailable:   2001401232 kB\nHugePages_Total:       0\n"
        )
        self.write(
            "proc/cpuinfo", "".join(f"processor\t: {n}\nmodel name\t: Intel(R) Xeon(R) 8480C\n\n" for n in range(4))
        )
        self.write("proc/loadavg", "1.50 1.25 1.00 3/1234 5678\n")
        self.write("proc/uptime", "1000.00 2000.00\n")
        lines = ["Inter-|", " face |", "    lo: 9 0 0 0 0 0 0 0 9 0", "  eth0: 100 0 0 0 0 0 0 0 200 0"]
        self.write("proc/net/dev", "\n".join(lines) + "\n")
        self.write("proc/self/mountinfo", "30 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme8n1p2 rw\n")
        for node in (0, 1):
            (self.root / f"sys/devices/system/node/node{node}").mkdir(parents=True)
            self.write(f"sys/devices/system/edac/mc/mc{node}/ue_count", "0\n")
            self.write(f"sys/devices/system/edac/mc/mc{node}/ce_count", "3\n")
        (self.root / "sys/class/iommu/dmar0").mkdir(parents=True)
        names = (
            "# list\n10de  NVIDIA Corporation\n\t2335  GH100 [H200 SXM 141GB]\n\t\t10de 18be  HGX\n8087  I\n\t1  X\n"
        )
        self.write("usr/share/misc/pci.ids", names)
        self.kernel_log("Linux version 6.8.0-45-generic")

    def function(self, place: str, facts: dict[str, str], *, driver: str = "") -> Path:
        """A PCI function at `place`, the path of addresses from its root complex down."""
        directory = self.root / "sys/devices" / place
        address = directory.name
        for name, value in facts.items():
            self.write(f"sys/devices/{place}/{name}", value + "\n")
        devices = self.root / "sys/bus/pci/devices"
        devices.mkdir(parents=True, exist_ok=True)
        (devices / address).symlink_to(os.path.relpath(directory, devices))
        self._group += 1
        (directory / "iommu_group").symlink_to(f"../../../../kernel/iommu_groups/{self._group}")
        if driver:
            (directory / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
        return directory

    def _gpu(self, index: int, address: str) -> None:
        numa, bus = str(index // 4), int(address[5:7], 16)
        switch = f"pci0000:{bus - 3:02x}/0000:{bus - 3:02x}:01.0/0000:{bus - 2:02x}:00.0"
        facts = {"class": "0x030200", "vendor": "0x10de", "device": "0x2335", "numa_node": numa}
        gpu = self.function(f"{switch}/0000:{bus - 1:02x}:00.0/{address}", facts, driver=self.driver)
        (gpu / "vpd").write_bytes(vpd(f"165302400{index:04d}"))
        (gpu / "config").write_bytes(struct.pack("<HH", 0x10DE, 0x2335) + bytes(60))
        (gpu / "reset").write_text("")
        (gpu / "reset_method").write_text("flr bus\n")
        disk = f"{switch}/0000:{bus - 1:02x}:01.0/0000:{bus + 1:02x}:00.0"
        self._nvme(disk, f"nvme{index}", numa, f"S6CKNT0W{index:06d}")
        self._fabric(f"{switch}/0000:{bus - 1:02x}:02.0", bus + 2, index, numa)

    def _nvme(self, place: str, name: str, numa: str, serial: str) -> None:
        facts = {"class": "0x010802", "vendor": "0x144d", "device": "0xa824", "numa_node": numa}
        facts |= {f"nvme/{name}/serial": serial, f"nvme/{name}/model": "SAMSUNG MZWLO3T8HCLS-00A07"}
        self.function(place, facts | {f"nvme/{name}/{name}n1/size": str(3_840_755_982_336 // 512)}, driver="nvme")

    def _fabric(self, port: str, bus: int, index: int, numa: str) -> None:
        for function in range(3):
            address = f"0000:{bus:02x}:00.{function}"
            facts = {"class": "0x020700", "vendor": "0x15b3", "device": "0x1021", "numa_node": numa}
            device = f"infiniband/mlx5_{index * 3 + function}"
            facts[f"{device}/node_guid"] = f"a088:c203:00{index:02x}:0{function}00"
            facts[f"{device}/ports/1/link_layer"] = "InfiniBand"
            if not function:
                facts["sriov_numvfs"] = "2"
            directory = self.function(f"{port}/{address}", facts, driver="mlx5_core")
            if function:
                (directory / "physfn").symlink_to(f"../0000:{bus:02x}:00.0")

    def _system_disk(self) -> None:
        """On the first GPU's NUMA node, and the host's own."""
        place = "pci0000:00/0000:00:1d.0/0000:02:00.0"
        self._nvme(place, "nvme8", "0", "BOOT0001")
        partition = f"sys/devices/{place}/nvme/nvme8/nvme8n1/nvme8n1p2"
        self.write(f"{partition}/partition", "2\n")
        blocks = self.root / "sys/dev/block"
        blocks.mkdir(parents=True)
        (blocks / "259:2").symlink_to(os.path.relpath(self.root / partition, blocks))

    def _console_card(self) -> None:
        facts = {"class": "0x030000", "vendor": "0x1a03", "device": "0x2000", "numa_node": "0"}
        self.function("pci0000:00/0000:00:1c.0/0000:03:00.0", facts, driver="ast")

    def _ethernet(self) -> None:
        """The same maker's card, with a device of RDMA over Ethernet: no fabric."""
        facts = {"class": "0x020000", "vendor": "0x15b3", "device": "0x101d", "numa_node": "0"}
        facts |= {"infiniband/mlx5_90/node_guid": "1", "infiniband/mlx5_90/ports/1/link_layer": "Ethernet"}
        self.function("pci0000:00/0000:00:1e.0/0000:04:00.0", facts, driver="mlx5_core")


def vpd(serial: str) -> bytes:
    """Vital product data with a name, a part number and this serial number."""
    fields = b"".join(
        key + bytes([len(text)]) + text for key, text in ((b"PN", b"699-2G520"), (b"SN", serial.encode()))
    )
    name = b"NVIDIA H200"
    return b"\x82" + struct.pack("<H", len(name)) + name + b"\x90" + struct.pack("<H", len(fields)) + fields + b"\x78"
