"""What a health report means: pure."""

from collections.abc import Sequence

from gpuaas.contracts.tasks.catalogue import Cleaning, CleaningMethod
from gpuaas.contracts.tasks.topology import Check, FaultKind, GpuFault, GpuHealth, HostHealth

MAX_TEXT = 300


def host_verdict(health: HostHealth) -> tuple[bool, str]:
    """Whether the host itself is well. A sick GPU is not the host's sickness: its siblings stay sellable."""
    failed = failures(health.checks)
    if failed:
        return False, failed
    if not health.healthy and all(gpu.healthy for gpu in health.gpus):
        return False, "the agent says so, without a check that failed"
    return True, ""


def gpu_verdict(gpu: GpuHealth) -> tuple[bool, str]:
    failed = failures(gpu.checks)
    if failed or not gpu.healthy:
        return False, failed or "the agent says so, without a check that failed"
    return True, ""


def gpu_verdicts(gpus: list[GpuHealth]) -> list[GpuHealth]:
    """Each GPU once: of what is said of one, the worst counts."""
    said: dict[str, GpuHealth] = {}
    for gpu in gpus:
        if gpu.serial not in said or not gpu_verdict(gpu)[0]:
            said[gpu.serial] = gpu
    return list(said.values())


def failures(checks: list[Check]) -> str:
    """The failed ones, in words."""
    failed = [f"{check.name}: {check.detail}" if check.detail else check.name for check in checks if not check.passed]
    return "; ".join(failed)[:MAX_TEXT]


def memory_cleared(serial: str, cleanings: Sequence[Cleaning]) -> bool:
    """Whether that was shown of this GPU, and nothing said of it speaks against it. A reset is no erasure."""
    about = [cleaning for cleaning in cleanings if cleaning.target == serial]
    cleared = any(cleaning.method is CleaningMethod.MEMORY_CLEARED for cleaning in about)
    return cleared and all(cleaning.clean for cleaning in about)


def quarantines(fault: GpuFault) -> bool:
    """A tenant's program that crashes says nothing of the GPU; all else does."""
    return fault.kind is not FaultKind.APPLICATION


def heals_by_itself(fault: GpuFault, strikes: int, strikes_max: int) -> bool:
    """Whether a check under load may follow without an operator: gone after a reset, and not too often."""
    return fault.kind is FaultKind.RESETTABLE and strikes < strikes_max


def breaker_trips(failed_in_a_row: int, allowed: int) -> bool:
    return failed_in_a_row >= allowed
