"""A simulated host disturbs nobody's work, as a real one does not."""

from pathlib import Path

import pytest

from gpuaas.contracts.tasks.topology import FaultKind
from gpuaas.infra.hosts.simulated.accounts import processes_of, start_shell
from gpuaas.infra.hosts.simulated.host import SimulatedHost
from gpuaas.infra.hosts.simulated.tap import kind_of
from gpuaas.infra.hosts.simulated.topology import read_description
from gpuaas.ports.host import HostFailed


async def quiet(name: str, detail: str) -> None:
    assert name


async def test_a_gpu_an_account_has_is_not_put_under_load_until_it_is_revoked(tmp_path: Path) -> None:
    host = SimulatedHost(tmp_path, read_description("4xl40s"), "node-1")
    serials = [gpu.serial for gpu in (await host.inspect()).gpus]
    await host.provision("gabc", [], serials[:1], tell=quiet)
    for wanted in ([], serials[:2]):
        with pytest.raises(HostFailed) as refused:
            await host.health(wanted, load=True, tell=quiet)
        assert refused.value.code == "gpu_in_use"
    assert (await host.health(serials[1:], load=True, tell=quiet)).healthy
    assert (await host.health([], load=False, tell=quiet)).healthy
    await host.revoke("gabc", tell=quiet)
    assert (await host.health([], load=True, tell=quiet)).healthy


def test_a_process_that_is_about_to_become_another_program_is_seen(tmp_path: Path) -> None:
    for _ in range(50):
        started = start_shell(tmp_path, "-c", "exec sleep 60")
        seen = processes_of(tmp_path)
        started.kill()
        started.wait()
        assert seen == [started.pid]


@pytest.mark.parametrize(
    ("xid", "kind"),
    [(79, FaultKind.HARDWARE), (95, FaultKind.RESETTABLE), (31, FaultKind.APPLICATION), (9999, FaultKind.HARDWARE)],
)
def test_a_number_means_what_it_means_on_a_real_host(xid: int, kind: FaultKind) -> None:
    assert kind_of(xid) is kind
