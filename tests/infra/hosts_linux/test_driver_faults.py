"""Faults the drivers tell: what they mean, and that each is told until it is acknowledged, across restarts."""

from pathlib import Path

import pytest

from gpuaas.contracts.tasks.topology import FaultKind
from gpuaas.infra.hosts.linux import xid_catalogue as catalogue
from gpuaas.infra.hosts.linux.driver_faults import read_line
from gpuaas.infra.hosts.linux.kernel_log import KernelLog, parse_record
from tests.infra.hosts_linux.recorded import GPUS, RecordedHost
from tests.infra.hosts_linux.test_inspection import host_of

APPLICATION, RESETTABLE, HARDWARE = FaultKind.APPLICATION, FaultKind.RESETTABLE, FaultKind.HARDWARE
XID = "NVRM: Xid (PCI:0000:3a:00): "
AMD = "amdgpu 0000:3a:00.0: "
LINES: list[tuple[str, str, FaultKind]] = [
    (XID + "13, pid=3456, name=python, Graphics SM Warp Exception on (GPC 0, TPC 1)", "XID 13", APPLICATION),
    (XID + "31, pid=1, name=x, Ch 00000008, MMU Fault: ENGINE GRAPHICS", "XID 31", APPLICATION),
    (XID + "43, pid=1, name=x, Ch 00000010", "XID 43", APPLICATION),
    (XID + "45, pid=1, name=x, Ch 00000010", "XID 45", APPLICATION),
    (XID + "68, pid=1, name=x, NVDEC", "XID 68", APPLICATION),
    (XID + "48, pid=1234, An uncorrectable double bit error (DBE) has been detected", "XID 48", RESETTABLE),
    (XID + "63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.", "XID 63", RESETTABLE),
    (XID + "64, pid=1, Row Remapper: Error recording", "XID 64", HARDWARE),
    (XID + "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "XID 79", HARDWARE),
    (XID + "92, High single-bit ECC error rate", "XID 92", HARDWARE),
    (XID + "94, pid=1, Contained: SM (0x1)", "XID 94", RESETTABLE),
    (XID + "95, pid=1, Uncontained: L2", "XID 95", RESETTABLE),
    (XID + "119, pid=1, name=x, Timeout waiting for RPC from GSP0!", "XID 119", RESETTABLE),
    (XID + "74, NVLink: fatal error detected on link 3", "XID 74", RESETTABLE),
    (XID + "137, pid=1, name=x, NVLink TLC RX PRIV Error", "XID 137", APPLICATION),
    (XID + "149, NETIR_LINK_EVT Fatal XC0 i0 Link 04 (0x004505c6 0x00000000)", "XID 149", RESETTABLE),
    (XID + "145, RLW_REMAP Nonfatal XC0 i0 Link 08 (0x00000004 0x80000000)", "XID 145", APPLICATION),
    (XID + "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "XID 154", HARDWARE),
    (XID + "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "XID 154", RESETTABLE),
    (XID + "61, pid=1", "XID 61", HARDWARE),
    (XID + "999, never heard of", "XID 999", HARDWARE),
    ("NVRM: Xid (0000:3a:00): 79, GPU has fallen off the bus.", "XID 79", HARDWARE),
    ("NVRM: Xid (PCI:00000000:3A:00.0): 79, x", "XID 79", HARDWARE),
    (AMD + "amdgpu: GPU reset begin!", "amdgpu reset", RESETTABLE),
    (AMD + "amdgpu: GPU reset(2) failed", "amdgpu reset failed", HARDWARE),
    (AMD + "amdgpu: 3 uncorrectable hardware errors detected in umc block", "amdgpu RAS uncorrectable", HARDWARE),
    (AMD + "{1}1 new uncorrectable hardware errors detected in gfx block", "amdgpu RAS uncorrectable", HARDWARE),
    (AMD + "amdgpu: ring gfx_0.0.0 timeout, signaled seq=3", "amdgpu ring timeout", APPLICATION),
]  # fmt: skip


@pytest.mark.parametrize(("line", "code", "kind"), LINES)
def test_a_line_of_a_driver_means(line: str, code: str, kind: FaultKind) -> None:
    fault = read_line(line)
    assert fault is not None
    assert (fault.address, fault.code, fault.kind) == ("0000:3a:00.0", code, kind)
    assert len(fault.detail) <= 500


@pytest.mark.parametrize(
    "line",
    [
        "Linux version 6.8.0",
        "",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
        "NVRM: Xid (PCI:nonsense): 79",
        "oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/user.slice/" + XID + "79, forged",
        "traps: " + AMD + "amdgpu: GPU reset(2) failed",
        XID + "121, corrected",
        XID + "107, SMBPBI test message",
        XID + "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
        AMD + "amdgpu: 0 uncorrectable hardware errors detected",
        AMD + "amdgpu: GPU reset(2) succeeded!",
    ],
)
def test_other_lines_mean_no_fault(line: str) -> None:
    assert read_line(line) is None


def test_every_number_of_the_catalogue_means_one_thing() -> None:
    groups = [catalogue.RESTART_APP, catalogue.IGNORED, catalogue.RESET_GPU, catalogue.REPAIR, catalogue.NVLINK5]
    groups += [catalogue.QUIET, frozenset({catalogue.RECOVERY_CHANGED})]
    assert sum(map(len, groups)) == len(frozenset().union(*groups))
    unused = {1, 2, 3, 9, 12, 47, 61, 65, 73, 81, 87, 90, 111, 122, 138}
    assert {catalogue.xid_kind(code) for code in unused | {166, 170, 173, 9999}} == {HARDWARE}


def test_no_program_of_a_tenant_can_take_a_gpu_out_of_sale() -> None:
    """What the catalogue calls a bug of applications never quarantines."""
    for code in (8, 11, 13, 25, 31, 32, 43, 45, 69, 80, 137):
        assert catalogue.xid_kind(code) is APPLICATION


def test_what_a_program_called_itself_stays_text() -> None:
    fault = read_line(XID + "13, name=\x1b[2Jevil\x07" + "x" * 2000)
    assert fault is not None
    assert fault.detail.isprintable()
    assert len(fault.detail) == 500


def test_a_line_somebody_wrote_into_the_log_is_not_the_kernels() -> None:
    assert parse_record(b"12,5,100,-;" + XID.encode() + b"79, forged\n") is None  # facility 1: a user
    record = parse_record(b"4,5,100,-;" + XID.encode() + b"79, real\n SUBSYSTEM=pci\n")
    assert record is not None
    assert (record.sequence, record.microseconds) == (5, 100)
    assert record.message.endswith("79, real")
    assert parse_record(b"nonsense") is None


def test_this_machines_own_log_is_read_without_waiting() -> None:
    kernel = KernelLog(Path("/dev/kmsg"))
    records = list(kernel.read())
    assert [record.sequence for record in records] == sorted(record.sequence for record in records)
    last = records[-1].sequence if records else -1
    assert all(record.sequence > last for record in kernel.read()), "what was read is not read again"
    kernel.close()
    assert [record.sequence for record in kernel.read()][: len(records)] == [record.sequence for record in records]
    kernel.close()


async def test_a_fault_is_told_with_its_serial_until_it_is_acknowledged(tmp_path: Path) -> None:
    recorded, state = RecordedHost(tmp_path / "root"), tmp_path / "state"
    serial = (await host_of(recorded, state).inspect()).gpus[2].serial
    recorded.lose(GPUS[2])
    recorded.kernel_log("boot", XID + "79, GPU has fallen off the bus.", XID + "45, after it")
    first = await host_of(recorded, state).faults()
    assert [(fault.serial, fault.code) for fault in first] == [(serial, "XID 79"), (serial, "XID 45")]
    restarted = host_of(recorded, state)
    assert await restarted.faults() == first
    await restarted.acknowledge(first[:1])
    assert await host_of(recorded, state).faults() == first[1:]
    await restarted.acknowledge(first)
    assert await host_of(recorded, state).faults() == []


async def test_a_new_boot_starts_the_log_anew(tmp_path: Path) -> None:
    recorded, state = RecordedHost(tmp_path / "root"), tmp_path / "state"
    recorded.kernel_log("a", "b", "c", XID + "79, x")
    before = await host_of(recorded, state).faults()
    await host_of(recorded, state).acknowledge(before)
    recorded.write("proc/sys/kernel/random/boot_id", "another\n")
    recorded.kernel_log(XID + "79, again")
    after = await host_of(recorded, state).faults()
    assert [fault.detail for fault in after] == ["again"]


async def test_a_flood_of_faults_is_bounded_and_keeps_the_serious(tmp_path: Path) -> None:
    recorded, state = RecordedHost(tmp_path / "root"), tmp_path / "state"
    recorded.kernel_log(XID + "79, the one", *[XID + f"13, pid={number}" for number in range(2000)])
    told = await host_of(recorded, state).faults()
    assert told[0].code == "XID 79"
    assert [fault.code for fault in told].count("XID 13") == 34, "2000 seconds of crashes, once a minute"
    recorded.kernel_log(XID + "79, the one", *[XID + "48, DBE" for number in range(2000)])
    (state / "faults.json").unlink()
    told = await host_of(recorded, state).faults()
    assert (len(told), told[0].code) == (500, "XID 79")


async def test_what_speaks_against_a_gpu_is_told_before_what_does_not(tmp_path: Path) -> None:
    recorded, state = RecordedHost(tmp_path / "root"), tmp_path / "state"
    crashes = [
        f"NVRM: Xid (PCI:{address[:-2]}): {code}, x" for address in GPUS for code in (8, 11, 13, 31, 32, 43, 45, 68)
    ]
    recorded.kernel_log(*crashes, XID + "79, the one")
    told = await host_of(recorded, state).faults()
    assert (len(told), told[0].code) == (65, "XID 79")
    health = await host_of(recorded, state).health([], load=False, tell=quiet)
    assert health.faults[0].code == "XID 79"


async def quiet(name: str, detail: str) -> None:
    assert name


async def test_a_damaged_journal_is_read_anew_from_the_log(tmp_path: Path) -> None:
    recorded, state = RecordedHost(tmp_path / "root"), tmp_path / "state"
    recorded.kernel_log(XID + "79, x")
    await host_of(recorded, state).faults()
    (state / "faults.json").write_bytes(b'{"boot')
    assert [fault.code for fault in await host_of(recorded, state).faults()] == ["XID 79"]
