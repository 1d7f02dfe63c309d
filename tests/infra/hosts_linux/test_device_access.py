"""An account opens the GPUs it was given and no others: real accounts, real device files of a recorded server."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuaas.contracts.tasks.topology import Gpu
from gpuaas.infra.hosts.linux.accounts import Accounts
from gpuaas.infra.hosts.linux.device_access import DeviceAccess
from gpuaas.infra.hosts.linux.host import LinuxHost, LinuxSettings
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.ports.host import HostFailed
from tests.infra.hosts_linux import machine
from tests.infra.hosts_linux.conftest import Ground
from tests.infra.hosts_linux.recorded import GPUS, RecordedHost
from tests.infra.hosts_linux.test_condition import failed, quiet

NULL = os.makedev(1, 3)
CLOSED = (0, 0, 0o600)


class Server:
    """Eight GPUs with NVIDIA's device files as its driver makes them, which anybody may open, and a directory that
    anybody may enter."""

    def __init__(self, root: Path) -> None:
        self.recorded = RecordedHost(root, driver="nvidia")
        self.layout = Layout(root=root)
        for minor, address in enumerate(GPUS):
            about = f"Model:\t\t NVIDIA H200\nGPU Firmware:\t 550\nDevice Minor: \t {minor}\n"
            self.recorded.write(f"proc/driver/nvidia/gpus/{address}/information", about)
            self.make(f"nvidia{minor}")
        self.make("nvidiactl")
        (root / "dev").chmod(0o755)

    def make(self, name: str, mode: int = 0o666) -> Path:
        file = self.layout.dev / name
        file.parent.mkdir(exist_ok=True)
        os.mknod(file, stat.S_IFCHR | mode, NULL)
        file.chmod(mode)
        return file

    def host(self, state: Path) -> LinuxHost:
        return LinuxHost(state, LinuxSettings(layout=self.layout, nvml_library="libno.so"))

    def now(self, name: str) -> tuple[int, int, int]:
        status = (self.layout.dev / name).lstat()
        return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)

    def opened_by(self, uid: int) -> list[str]:
        """What a process of this account really opens."""
        names = [f"nvidia{minor}" for minor in range(8)] + ["nvidiactl"]
        code = (
            "import os, sys\n"
            "for name in sys.argv[1:]:\n"
            "    try: os.close(os.open(name, os.O_RDWR)); print(name)\n"
            "    except PermissionError: pass\n"
        )
        tried = subprocess.run(
            [sys.executable, "-I", "-c", code, *names],
            cwd=self.layout.dev,
            user=uid,
            group=uid,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=True,
        )
        return tried.stdout.split()


@pytest.fixture
def server() -> Iterator[Server]:
    root = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="gpuaas-devices-"))
    root.chmod(0o755)
    try:
        yield Server(root)
    finally:
        shutil.rmtree(root)


async def accounts_on(server: Server, ground: Ground) -> tuple[Accounts, list[Gpu]]:
    gpus = (await server.host(ground.state / "host").inspect()).gpus
    access = DeviceAccess(server.layout)
    made = Accounts(Layout(uids=ground.uids), ground.state, ground.terms, lambda held: access.apply(gpus, held))
    return made, gpus


async def test_an_account_opens_its_gpus_and_no_others_until_it_is_revoked(server: Server, ground: Ground) -> None:
    accounts, gpus = await accounts_on(server, ground)
    first, second = ground.login(), ground.login()
    one = await accounts.provision(first, [], [gpus[0].serial, gpus[3].serial], ground.tell)
    assert server.opened_by(one.uid) == ["nvidia0", "nvidia3", "nvidiactl"]
    two = await accounts.provision(second, [], [gpus[7].serial], ground.tell)
    assert server.opened_by(two.uid) == ["nvidia7", "nvidiactl"]
    assert server.opened_by(one.uid) == ["nvidia0", "nvidia3", "nvidiactl"]
    await accounts.revoke(first, ground.tell)
    assert server.opened_by(one.uid) == ["nvidiactl"]
    assert [server.now(f"nvidia{minor}") for minor in (0, 1, 3)] == [CLOSED] * 3
    assert server.now("nvidia7") == (0, two.uid, 0o660)
    await accounts.revoke(second, ground.tell)
    assert server.now("nvidia7") == CLOSED
    assert machine.remains(one.uid, first) == {}


async def test_an_account_that_is_changed_has_only_what_it_has_now(server: Server, ground: Ground) -> None:
    accounts, gpus = await accounts_on(server, ground)
    login = ground.login()
    made = await accounts.provision(login, [], [gpus[0].serial], ground.tell)
    await accounts.provision(login, [], [gpus[1].serial], ground.tell)
    assert server.opened_by(made.uid) == ["nvidia1", "nvidiactl"]
    await accounts.provision(login, [], [], ground.tell)
    assert server.opened_by(made.uid) == ["nvidiactl"]


async def test_a_gpu_somebody_has_is_not_given_to_another(server: Server, ground: Ground) -> None:
    accounts, gpus = await accounts_on(server, ground)
    holder, other = ground.login(), ground.login()
    made = await accounts.provision(holder, [], [gpus[0].serial], ground.tell)
    with pytest.raises(HostFailed) as refused:
        await accounts.provision(other, [], [gpus[0].serial], ground.tell)
    assert refused.value.code == "gpu_in_use"
    assert server.opened_by(made.uid) == ["nvidia0", "nvidiactl"]
    assert await accounts.logins() == [holder]


async def test_a_gpu_somebody_has_is_neither_loaded_nor_cleaned(server: Server, ground: Ground) -> None:
    accounts, gpus = await accounts_on(server, ground)
    await accounts.provision(ground.login(), [], [gpus[0].serial], ground.tell)
    host = server.host(ground.state)
    for work in (
        host.health([gpus[0].serial], load=True, tell=quiet),
        host.health([], load=True, tell=quiet),
        host.sanitise([gpus[0].serial], reimage=False, tell=quiet),
    ):
        with pytest.raises(HostFailed) as refused:
            await work
        assert refused.value.code == "gpu_in_use"
    assert (await host.health([gpus[0].serial], load=False, tell=quiet)).gpus


async def test_what_somebody_opened_is_closed_by_the_next_check_and_told(server: Server, tmp_path: Path) -> None:
    host = server.host(tmp_path / "state")
    first = await host.health([], load=False, tell=quiet)
    assert "device_access" not in failed(first.checks)
    assert {server.now(f"nvidia{minor}") for minor in range(8)} == {CLOSED}
    assert server.now("nvidiactl") == (0, 0, 0o666), "without one of the others it opens nothing"
    (server.layout.dev / "nvidia2").chmod(0o666)
    again = await host.health([], load=False, tell=quiet)
    [check] = [check for check in again.checks if check.name == "device_access"]
    assert (check.passed, check.detail) == (True, "closed: nvidia2 is 0:0 0666")
    assert server.now("nvidia2") == CLOSED


async def test_a_driver_that_opens_them_for_anybody_has_not_passed(server: Server, tmp_path: Path) -> None:
    server.recorded.write("proc/driver/nvidia/params", "ModifyDeviceFiles: 1\nDeviceFileMode: 438\n")
    health = await server.host(tmp_path / "state").health([], load=False, tell=quiet)
    [check] = [check for check in health.checks if check.name == "device_access"]
    assert not check.passed
    assert "NVreg_ModifyDeviceFiles=0" in check.detail
    server.recorded.write("proc/driver/nvidia/params", "ModifyDeviceFiles: 0\n")
    health = await server.host(tmp_path / "state").health([], load=False, tell=quiet)
    assert "device_access" not in failed(health.checks)


async def test_display_files_of_a_gpu_are_closed_too_and_a_link_is_not_followed(server: Server, tmp_path: Path) -> None:
    render = server.make("dri/renderD128")
    gpu = server.recorded.root / "sys/bus/pci/devices" / GPUS[0]
    (gpu / "drm/renderD128").mkdir(parents=True)
    bait = tmp_path / "bait"
    bait.write_text("")
    bait.chmod(0o644)
    (server.layout.dev / "nvidia1").unlink()
    (server.layout.dev / "nvidia1").symlink_to(bait)
    await server.host(tmp_path / "state").health([], load=False, tell=quiet)
    assert stat.S_IMODE(render.stat().st_mode) == 0o600
    assert stat.S_IMODE(bait.stat().st_mode) == 0o644


async def test_after_a_crash_in_the_middle_the_same_verb_ends_with_the_right_owner(
    server: Server, ground: Ground
) -> None:
    accounts, gpus = await accounts_on(server, ground)
    login = ground.login()

    async def die(name: str, detail: str) -> None:
        if name == "gpus_opened":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await accounts.provision(login, [], [gpus[0].serial], die)
    accounts, _ = await accounts_on(server, ground)
    made = await accounts.provision(login, [], [gpus[0].serial], ground.tell)
    assert server.opened_by(made.uid) == ["nvidia0", "nvidiactl"]
    accounts, _ = await accounts_on(server, ground)
    await accounts.revoke(login, ground.tell)
    assert server.now("nvidia0") == CLOSED


async def test_a_suspended_account_opens_none_and_nobody_else_is_given_its_gpus(server: Server, ground: Ground) -> None:
    accounts, gpus = await accounts_on(server, ground)
    login = ground.login()
    made = await accounts.provision(login, [], [gpus[0].serial], ground.tell)
    await accounts.suspend(login, ground.tell)
    assert server.opened_by(made.uid) == ["nvidiactl"]
    with pytest.raises(HostFailed, match="another account has"):
        await accounts.provision(ground.login(), [], [gpus[0].serial], ground.tell)
    await accounts.provision(login, [], [gpus[0].serial], ground.tell)
    assert server.opened_by(made.uid) == ["nvidia0", "nvidiactl"]
