"""A GPU under load and its memory cleared: the shipped exercise on a stand-in for CUDA's driver in C, the programs of
others by what they say, and hosts that can prove nothing."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuaas.infra.hosts.linux.host import LinuxHost, LinuxSettings
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.infra.hosts.linux.proving import Proofs
from tests.infra.hosts_linux.recorded import RecordedHost
from tests.infra.hosts_linux.test_condition import failed, quiet

GOOD, HOT, LOST = "1653024999999", "GPU-0d1f", "1653024000002"


def host_of(tmp_path: Path, *, nvml: str = "libno.so", driver: str = "nvidia", **proofs: object) -> LinuxHost:
    recorded = RecordedHost(tmp_path / "root", driver=driver)
    chosen = Proofs(**{"path": str(tmp_path / "bin"), "load_seconds": 0.0, **proofs})  # type: ignore[arg-type] # a test's own
    return LinuxHost(
        tmp_path / "state", LinuxSettings(layout=Layout(root=recorded.root), nvml_library=nvml, proofs=chosen)
    )


def program(tmp_path: Path, name: str, says: str, code: int = 0) -> Path:
    """A program of an operator or of NVIDIA, as far as its words go; what it was asked is kept."""
    file = tmp_path / "bin" / name
    file.parent.mkdir(exist_ok=True)
    (tmp_path / "says").write_text(says)
    file.write_text(
        f'#!/bin/sh\necho "$@ $CUDA_VISIBLE_DEVICES" >> {tmp_path}/asked\n/bin/cat {tmp_path}/says\nexit {code}\n'
    )
    file.chmod(0o755)
    return file


async def load_of(host: LinuxHost, serial: str) -> tuple[bool, str]:
    [gpu] = (await host.health([serial], load=True, tell=quiet)).gpus
    [check] = [check for check in gpu.checks if check.name == "load"]
    return check.passed, check.detail


# the shipped exercise ------------------------------------------------------------------------------------------------
async def test_a_gpu_is_filled_read_back_and_left_empty(tmp_path: Path, nvml: str, cuda: Callable[..., str]) -> None:
    trace = tmp_path / "trace"
    host = host_of(tmp_path, nvml=nvml, library=cuda(f'TRACE="{trace}"'))
    passed, detail = await load_of(host, GOOD)
    assert passed, detail
    assert "2 rounds of patterns" in detail
    assert f"{94 << 20} of {96 << 20} bytes overwritten and read back as zero" in detail
    freed = [tuple(map(int, line.split())) for line in trace.read_text().splitlines()]
    assert sum(size for size, _ in freed) == 94 << 20
    assert {left for _, left in freed} == {0}


async def test_memory_is_cleared_with_evidence(tmp_path: Path, nvml: str, cuda: Callable[..., str]) -> None:
    trace = tmp_path / "trace"
    host = host_of(tmp_path, nvml=nvml, library=cuda(f'TRACE="{trace}"'))
    memory, _ = await host.sanitise([GOOD], reimage=False, tell=quiet)
    assert memory.clean
    assert memory.evidence.startswith(f"{94 << 20} of {96 << 20} bytes overwritten and read back as zero")
    assert {line.split()[1] for line in trace.read_text().splitlines()} == {"0"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("BAD_BIT", "not 0xaaaaaaaa as written"),
        ("DOES_NOT_CLEAR", "not 0x00000000 as written"),
        ("USED=40", "somebody uses the GPU"),
        ("NOT_READY", "the NVLink fabric is not up"),
        ("HANGS", "did not end within 1 s"),
    ],
)
async def test_what_is_wrong_with_a_gpu_is_found_and_named(
    tmp_path: Path, nvml: str, cuda: Callable[..., str], wrong: str, said: str
) -> None:
    limit = 1.0 if wrong == "HANGS" else 60.0
    host = host_of(tmp_path, nvml=nvml, library=cuda(wrong), limit_seconds=limit)
    passed, detail = await load_of(host, GOOD)
    assert not passed
    assert said in detail
    if wrong == "DOES_NOT_CLEAR":
        memory, _ = await host.sanitise([GOOD], reimage=False, tell=quiet)
        assert (memory.clean, said in memory.evidence) == (False, True)


async def test_a_check_that_is_cancelled_leaves_no_program_behind(
    tmp_path: Path, nvml: str, cuda: Callable[..., str]
) -> None:
    host = host_of(tmp_path, nvml=nvml, library=cuda("HANGS"))
    work = asyncio.create_task(load_of(host, GOOD))
    library = str(tmp_path / "libcuda.so.1").encode()

    def running() -> bool:
        commands = (Path("/proc", pid, "cmdline") for pid in os.listdir("/proc") if pid.isdigit())
        return any(library in command.read_bytes() for command in commands if command.exists())

    while not running():  # noqa: ASYNC110 # another program's life is looked at
        await asyncio.sleep(0.05)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not running()


async def test_a_gpu_others_compute_on_is_not_loaded_and_what_waits_for_a_reset_has_not_passed(
    tmp_path: Path, nvml: str, cuda: Callable[..., str]
) -> None:
    health = await host_of(tmp_path, nvml=nvml, library=cuda()).health([HOT], load=True, tell=quiet)
    assert failed(health.gpus[0].checks) == ["temperature", "ecc", "remapping", "pcie", "nvlink", "load"]
    details = {check.name: check.detail for check in health.gpus[0].checks}
    assert details["load"] == "2 programs compute on it"
    assert details["remapping"] == "waits for a reset"
    assert details["pcie"] == "8 of 16 lanes"
    assert details["nvlink"] == "down: 3"


async def test_what_waits_for_a_reset_is_reset_before_it_is_loaded(
    tmp_path: Path, nvml_pending: str, cuda: Callable[..., str]
) -> None:
    program(tmp_path, "nvidia-smi", "GPU 00000000:18:00.0 was successfully reset.")
    phases: list[tuple[str, str]] = []

    async def tell(name: str, detail: str) -> None:
        phases.append((name, detail))

    host = host_of(tmp_path, nvml=nvml_pending, library=cuda())
    health = await host.health([GOOD], load=True, tell=tell)
    assert (tmp_path / "asked").read_text().split() == ["--gpu-reset", "-i", "0000:18:00.0"]
    assert "was successfully reset" in dict(phases)["reset"]
    assert failed(health.gpus[0].checks) == ["remapping"], "it still waits for one"


# hosts that can prove nothing ----------------------------------------------------------------------------------------
async def test_a_host_that_cannot_prove_its_gpus_says_what_is_missing(tmp_path: Path, nvml: str) -> None:
    host = host_of(tmp_path, nvml=nvml, library="libno-cuda.so")
    passed, detail = await load_of(host, GOOD)
    assert not passed
    assert detail.startswith("libno-cuda.so is not installed")
    memory, reset = await host.sanitise([GOOD], reimage=False, tell=quiet)
    assert not memory.clean
    assert memory.evidence.startswith("libno-cuda.so is not installed")
    assert (reset.clean, reset.evidence) == (False, "nvidia-smi is not installed")


@pytest.mark.parametrize(
    ("driver", "said"),
    [("vfio-pci", "bound to vfio-pci"), ("nouveau", "does not have it (nouveau)"), ("", "does not have it (no driver")],
)
async def test_a_gpu_another_driver_has_is_not_loaded(tmp_path: Path, driver: str, said: str) -> None:
    host = host_of(tmp_path, driver=driver)
    health = await host.health([], load=True, tell=quiet)
    assert all(said in next(check.detail for check in gpu.checks if check.name == "load") for gpu in health.gpus)


# the programs of others ----------------------------------------------------------------------------------------------
def diagnosis(*statuses: str, version: int = 4) -> str:
    """As `dcgmi diag -j` of DCGM 3 and 4 nests it."""
    results = [
        {"entity_group": "GPU", "entity_id": 0, "status": status}
        if version == 4
        else {"gpu_ids": "0", "status": status}
        for status in statuses
    ]
    tests = [{"name": f"test {number}", "results": [result]} for number, result in enumerate(results)]
    top = "DCGM Diagnostic" if version == 4 else "DCGM GPU Diagnostic"
    return json.dumps({top: {"test_categories": [{"category": "Hardware", "tests": tests}]}})


@pytest.mark.parametrize("version", [3, 4])
async def test_where_dcgm_is_installed_its_diagnosis_decides(tmp_path: Path, nvml: str, version: int) -> None:
    program(tmp_path, "dcgmi", "a warning first\n" + diagnosis("Pass", "Skip", "Pass", version=version))
    assert await load_of(host_of(tmp_path, nvml=nvml), GOOD) == (True, "dcgmi diag -r 2: 2 tests passed")
    assert (tmp_path / "asked").read_text().split() == ["diag", "-r", "2", "-i", "0", "-j"]


@pytest.mark.parametrize(
    ("says", "code", "said"),
    [
        (diagnosis("Pass", "Fail"), 0, "test 1 failed"),
        (diagnosis("Pass"), 226, "ended with 226"),
        (diagnosis("Skip"), 0, "ended with 0"),
        ("error: unable to establish a connection to the specified host", 1, "unable to establish a connection"),
        ("", 0, "no output"),
    ],
)
async def test_a_diagnosis_that_does_not_say_yes_has_not_passed(
    tmp_path: Path, nvml: str, says: str, code: int, said: str
) -> None:
    program(tmp_path, "dcgmi", says, code)
    passed, detail = await load_of(host_of(tmp_path, nvml=nvml), GOOD)
    assert (passed, said in detail) == (False, True), detail


async def test_nvbandwidth_is_run_beside_the_exercise(tmp_path: Path, nvml: str, cuda: Callable[..., str]) -> None:
    program(tmp_path, "nvbandwidth", "SUM host_to_device_memcpy_ce 55.63")
    passed, detail = await load_of(host_of(tmp_path, nvml=nvml, library=cuda()), GOOD)
    assert passed
    assert detail.endswith("nvbandwidth passed both ways")
    assert (tmp_path / "asked").read_text().split()[-1] == "GPU-0d1f"


@pytest.mark.parametrize(("code", "passes"), [(0, True), (3, False)])
async def test_an_operators_program_is_run_with_the_gpus_address_and_serial(
    tmp_path: Path, nvml: str, code: int, passes: bool
) -> None:
    chosen = program(tmp_path, "burn", "989 TFLOPS\n", code)
    passed, detail = await load_of(host_of(tmp_path, nvml=nvml, load_test=str(chosen)), GOOD)
    assert (passed, "989 TFLOPS" in detail) == (passes, True)
    assert (tmp_path / "asked").read_text().split() == ["0000:18:00.0", GOOD]


async def test_a_program_that_is_not_there_has_not_passed_anything(tmp_path: Path, nvml: str) -> None:
    for chosen, said in (("dcgm", "dcgmi is not installed"), ("/no/such/program", "could not be started")):
        host = host_of(tmp_path / chosen.replace("/", ""), nvml=nvml, load_test=chosen)
        passed, detail = await load_of(host, GOOD)
        assert (passed, said in detail) == (False, True), detail


async def test_what_is_not_there_is_not_loaded(tmp_path: Path, nvml: str, cuda: Callable[..., str]) -> None:
    host = host_of(tmp_path, nvml=nvml, library=cuda())
    [gpu] = (await host.health(["nobody"], load=True, tell=quiet)).gpus
    assert not gpu.healthy
    gone, *sibling = await host.sanitise(["nobody", GOOD], reimage=False, tell=quiet)
    assert (gone.target, gone.clean) == ("nobody", False)
    assert sibling[0].clean, "one that is gone keeps nobody from cleaning the others"
