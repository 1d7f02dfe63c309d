"""What this host is made of. Read anew each time; nothing is remembered, nothing is assumed."""

import shutil

from gpuaas.contracts.tasks.topology import Gpu, Topology
from gpuaas.infra.hosts.linux import readings
from gpuaas.infra.hosts.linux.command import PATH, run
from gpuaas.infra.hosts.linux.devices import (
    fabrics,
    gpu_functions,
    gpu_serial,
    nvmes,
    spare_fabrics,
    system_disks,
)
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.infra.hosts.linux.nvml import Nvml
from gpuaas.infra.hosts.linux.pairing import Located, pair
from gpuaas.infra.hosts.linux.pci import PciFunction, pci_functions
from gpuaas.infra.hosts.linux.pci_names import read_pci_names, vendor_name
from gpuaas.ports.host import HostFailed

MOST_GPUS, MOST_NVMES, MOST_FABRICS = 64, 128, 256


def inspect(layout: Layout, nvml: Nvml | None) -> Topology:
    functions = pci_functions(layout.sys)
    disks, network, own = nvmes(functions), fabrics(functions), system_disks(layout)
    gpus = gpu_functions(functions)[:MOST_GPUS]
    spare = [function for function, disk in disks if function.address not in own]
    disk_of = pair(_located(gpus), _located(spare))
    fabric_of = pair(_located(gpus), _located(spare_fabrics(network)))
    names = read_pci_names(layout.root)
    cpu_model, cpu_count = _cpu(layout)
    nodes = readings.children(layout.sys / "devices/system/node")
    return Topology(
        hostname=readings.text(layout.proc / "sys/kernel/hostname")[:200],
        os=_os_name(layout),
        kernel=readings.text(layout.proc / "sys/kernel/osrelease")[:200],
        boot_id=readings.text(layout.proc / "sys/kernel/random/boot_id"),
        cpu_model=cpu_model,
        cpu_count=cpu_count,
        memory_bytes=memory_facts(layout).get("MemTotal", 0),
        numa_nodes=max(1, sum(entry.name.startswith("node") for entry in nodes if entry.is_dir())),
        iommu=bool(readings.children(layout.sys / "class/iommu")),
        gpus=[
            _gpu(layout, nvml, index, one, names, disk_of.get(one.address), fabric_of.get(one.address))
            for index, one in enumerate(gpus)
        ],
        nvmes=[disk for _, disk in disks][:MOST_NVMES],
        fabrics=[one.fabric for one in network][:MOST_FABRICS],
        driver_version=_driver_version(layout, nvml),
        containers=_version(layout, "containerd"),
        libvirt=_version(layout, "libvirtd"),
    )


def _gpu(
    layout: Layout,
    nvml: Nvml | None,
    index: int,
    function: PciFunction,
    names: dict[tuple[int, int], str],
    disk: str | None,
    fabric: str | None,
) -> Gpu:
    card = nvml.card(function.address) if nvml is not None and function.driver == "nvidia" else None
    known = names.get((function.vendor, function.device), f"{function.vendor:04x}:{function.device:04x}")
    return Gpu(
        index=index,
        address=function.address,
        vendor=vendor_name(function.vendor),
        model=((card.name if card else "") or known)[:200],
        serial=((card.serial or card.uuid) if card else "") or gpu_serial(layout, function),
        memory_bytes=card.memory_bytes if card else readings.number(function.path / "mem_info_vram_total"),
        numa=function.numa,
        iommu_group=function.iommu_group,
        driver=function.driver,
        nvme=disk,
        fabric=fabric,
    )


def _located(functions: list[PciFunction]) -> list[Located]:
    return [Located(one.address, one.bridges, one.numa) for one in functions]


def memory_facts(layout: Layout) -> dict[str, int]:
    """/proc/meminfo, in bytes."""
    facts = {}
    for line in readings.text(layout.proc / "meminfo").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            facts[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    return facts


def _cpu(layout: Layout) -> tuple[str, int]:
    lines = readings.text(layout.proc / "cpuinfo").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (models[0] if models else "")[:200], sum(line.startswith("processor") for line in lines)


def _os_name(layout: Layout) -> str:
    for line in readings.text(layout.etc / "os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip("\"'")[:200]
    return "Linux"


def _driver_version(layout: Layout, nvml: Nvml | None) -> str:
    told = nvml.driver_version if nvml is not None else ""
    modules = (readings.text(layout.sys / "module" / name / "version") for name in ("nvidia", "amdgpu"))
    return (told or next(filter(None, modules), ""))[:200]


def _version(layout: Layout, program: str) -> str:
    """What the program says; of a recorded host nothing can be run."""
    if str(layout.root) != "/" or shutil.which(program, path=PATH) is None:
        return ""
    try:
        return run([program, "--version"], timeout_seconds=5).output.splitlines()[0][:200]
    except (HostFailed, IndexError):
        return ""
