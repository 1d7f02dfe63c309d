"""How much of its GPUs a simulated host says is used."""

from pathlib import Path

from gpuaas.infra.hosts.simulated.host import SimulatedHost
from gpuaas.infra.hosts.simulated.topology import read_description


def host_in(path: Path) -> SimulatedHost:
    return SimulatedHost(path, read_description("4xl40s"), "node-1")


async def uses(host: SimulatedHost) -> list[float]:
    serials = [gpu.serial for gpu in (await host.inspect()).gpus]
    numbers = await host.metrics()
    return [numbers[f"gpu.{serial}.utilisation_percent"] for serial in serials if serial in str(numbers)]


async def test_nobody_uses_a_gpu_unless_asked_for_and_a_restart_does_not_change_it(tmp_path: Path) -> None:
    host = host_in(tmp_path)
    assert len(await uses(host)) == 4
    assert all(0 <= use <= 2 for use in await uses(host))

    host.use_gpu(1, 90.0)
    assert (await uses(host_in(tmp_path)))[1] == 90
    assert "gpu_use" in host.status("x").faults

    host.clear()
    assert max(await uses(host)) <= 2


async def test_a_gpu_that_is_lost_tells_nothing_of_its_use(tmp_path: Path) -> None:
    host = host_in(tmp_path)
    host.use_gpu(None, 50.0)
    lost = (await host.inspect()).gpus[2].serial
    host.lose_gpu(2, 79)
    assert f"gpu.{lost}.utilisation_percent" not in await host.metrics()
    assert await uses(host) == [50.0, 50.0, 50.0]
