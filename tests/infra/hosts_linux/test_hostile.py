"""A tenant who wants to stay, or to take the host along: a revocation removes all he left, and nothing else."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from gpuaas.ports.host import HostFailed
from tests.infra.hosts_linux import machine
from tests.infra.hosts_linux.conftest import Ground
from tests.infra.hosts_linux.machine import Sshd

PYTHON = "/usr/bin/python3"
ODD_NAMES = """
import os
for at in (os.environ["HOME"], "/tmp/" + os.environ["USER"] + ".odd"):
    os.makedirs(at, exist_ok=True)
    os.chdir(at)
    odd = (b"-rf", b"new\\nline", b"\\xff\\xfe", b"*", b"$(id)", b" ", b"a" * 255, "\\u202egnp".encode())
    for name in odd:
        open(name, "w").close()
        os.makedirs(b"d" + name[:250] + b"/x", exist_ok=True)
    os.mkfifo("pipe")
    os.mkdir("closed", 0)
    for number in range(300):
        os.symlink("/etc", f"etc{number}")
        os.symlink("/etc/passwd", f"passwd{number}")
        os.symlink("/", f"dclosed{number}")
    for _ in range(3000):
        os.mkdir("d")
        os.chdir("d")
"""
THREADS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(900,)).start()
ctypes.CDLL(None).syscall(60, 0)
"""
RECREATE = "while :; do mkdir -p /tmp/$USER.again/a /dev/shm/$USER.again ~/again/b; echo x > /tmp/$USER.again/a/f; done"


def canary(directory: Path) -> dict[str, tuple[int, int, int]]:
    """Every file of a directory with its inode, its size and its owner."""
    return {
        path.name: (path.lstat().st_ino, path.lstat().st_size, path.lstat().st_uid)
        for path in sorted(directory.iterdir())
    }


async def test_odd_names_deep_trees_and_links_to_the_system_go_alone(ground: Ground, sshd: Sshd) -> None:
    login, accounts = ground.login(), ground.accounts()
    made = await accounts.provision(login, [sshd.public_key], [], ground.tell)
    assert sshd.run(login, f"{PYTHON} -c '{ODD_NAMES}'").returncode == 0
    hosts, pam = Path("/etc/hosts").read_bytes(), canary(Path("/etc/pam.d"))
    await accounts.revoke(login, ground.tell)
    assert machine.remains(made.uid, login) == {}
    assert (Path("/etc/hosts").read_bytes(), canary(Path("/etc/pam.d"))) == (hosts, pam)


async def test_a_fork_bomb_stays_within_its_limit_and_is_ended(ground: Ground, sshd: Sshd) -> None:
    login, accounts = ground.login(), ground.accounts()
    made = await accounts.provision(login, [sshd.public_key], [], ground.tell)
    bomb = "f() { while :; do sleep 900 & f & done; }; f"
    sshd.run(login, f"setsid bash -c '{bomb}' </dev/null >/dev/null 2>&1 & sleep 2")
    running = len(machine.processes(made.uid))
    assert 20 < running <= 200
    await accounts.revoke(login, ground.tell)
    assert machine.remains(made.uid, login) == {}


async def test_what_makes_its_files_again_is_ended_before_they_are_removed(ground: Ground, sshd: Sshd) -> None:
    login, accounts = ground.login(), ground.accounts()
    made = await accounts.provision(login, [sshd.public_key], [], ground.tell)
    for _ in range(3):
        sshd.run(login, f"setsid nohup bash -c '{RECREATE}' </dev/null >/dev/null 2>&1 &")
    await accounts.revoke(login, ground.tell)
    time.sleep(0.3)
    assert machine.remains(made.uid, login) == {}


async def test_a_process_lives_on_in_its_threads_and_is_found(ground: Ground, sshd: Sshd) -> None:
    login, accounts = ground.login(), ground.accounts()
    made = await accounts.provision(login, [sshd.public_key], [], ground.tell)
    sshd.run(login, f"setsid {PYTHON} -c '{THREADS}' </dev/null >/dev/null 2>&1 & sleep 0.5")
    assert len(machine.processes(made.uid)) == 1
    assert (await accounts.revoke(login, ground.tell)).ended_processes >= 1
    assert machine.remains(made.uid, login) == {}


async def test_a_process_in_namespaces_of_its_own_is_ended(ground: Ground, sshd: Sshd) -> None:
    login, accounts = ground.login(), ground.accounts()
    made = await accounts.provision(login, [sshd.public_key], [], ground.tell)
    hidden = "unshare --user --map-root-user --pid --fork --mount-proc --ipc"
    allowed = sshd.run(login, f"{hidden} true").returncode == 0
    sshd.run(login, f"setsid {hidden} sleep 900 </dev/null >/dev/null 2>&1 & sleep 0.5")
    assert bool(machine.processes(made.uid)) == allowed
    await accounts.revoke(login, ground.tell)
    assert machine.remains(made.uid, login) == {}


async def test_files_that_cannot_be_changed_are_removed(ground: Ground, sshd: Sshd) -> None:
    login, accounts = ground.login(), ground.accounts()
    made = await accounts.provision(login, [sshd.public_key], [], ground.tell)
    places = ["~/kept/inner", f"/var/tmp/{login}.d/inner"]
    assert sshd.run(login, f"for d in {' '.join(places)}; do mkdir -p $d; touch $d/f; done").returncode == 0
    for top in (f"{made.home}/kept", f"/var/tmp/{login}.d"):
        # Where a file system knows no such files, they are as all others.
        subprocess.run(["chattr", "-R", "+i", top], capture_output=True, check=False)
    await accounts.revoke(login, ground.tell)
    assert machine.remains(made.uid, login) == {}


@contextlib.contextmanager
def root_directory(where: str, mode: int) -> Iterator[Path]:
    directory = Path(where) / f"gpuaas-test-{token_hex(6)}"
    directory.mkdir()
    directory.chmod(mode)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def test_what_is_mounted_in_a_home_is_taken_off_and_kept(ground: Ground, sshd: Sshd) -> None:
    login, accounts = ground.login(), ground.accounts()
    made = await accounts.provision(login, [sshd.public_key], [], ground.tell)
    with root_directory("/var/lib", 0o755) as shared:
        (shared / "precious").write_text("data of many")
        point = Path(made.home, "data set")
        point.mkdir()
        subprocess.run(["mount", "--bind", str(shared), str(point)], check=True)
        try:
            await accounts.revoke(login, ground.tell)
            assert (shared / "precious").read_text() == "data of many"
            assert machine.remains(made.uid, login) == {}
        finally:
            subprocess.run(["umount", "--lazy", str(point)], check=False, capture_output=True)


async def test_files_in_any_directory_that_is_open_to_all_are_found(ground: Ground, sshd: Sshd) -> None:
    login, accounts = ground.login(), ground.accounts()
    made = await accounts.provision(login, [sshd.public_key], [], ground.tell)
    with root_directory("/var/lib", 0o1777) as odd, root_directory("/tmp", 0o777) as of_another:
        (of_another / "theirs").write_text("of somebody else")
        assert sshd.run(login, f"touch {odd}/mine; mkdir -p {of_another}/a/b; touch {of_another}/a/b/c").returncode == 0
        await accounts.revoke(login, ground.tell)
        assert list(odd.iterdir()) == []
        assert [path.name for path in of_another.iterdir()] == ["theirs"]
    assert machine.remains(made.uid, login) == {}


async def test_new_keys_are_never_written_where_a_link_points(ground: Ground, sshd: Sshd) -> None:
    login, accounts = ground.login(), ground.accounts()
    made = await accounts.provision(login, [sshd.public_key], [], ground.tell)
    with root_directory("/var/lib", 0o755) as victim:
        (victim / "authorized_keys").write_text("of root")
        for trap in (
            f"rm -rf .ssh && ln -s {victim} .ssh",
            f"ln -sf {victim}/authorized_keys .ssh/authorized_keys",
            "rm .ssh/authorized_keys && mkdir -p .ssh/authorized_keys/x",
            "rm -rf .ssh && mkfifo .ssh",
            f"ln {victim}/authorized_keys .ssh/hard; echo evil > .ssh/authorized_keys2",
        ):
            assert sshd.run(login, trap + " || true").returncode == 0
            await accounts.provision(login, [sshd.public_key], [], ground.tell)
            assert canary(victim)["authorized_keys"][1:] == (len("of root"), 0)
            assert sshd.run(login, "cat .ssh/authorized_keys*").stdout.strip() == sshd.public_key
    await accounts.revoke(login, ground.tell)
    assert machine.remains(made.uid, login) == {}


async def test_what_comes_back_faster_than_it_goes_is_told_and_not_hidden(ground: Ground) -> None:
    login, accounts = ground.login(), ground.accounts()
    made = await accounts.provision(login, [], [], ground.tell)
    stop = threading.Event()

    def sow() -> None:
        while not stop.is_set():
            for number in range(20):
                with contextlib.suppress(FileNotFoundError):
                    path = f"/tmp/{login}.{number}"
                    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
                    os.chown(path, made.uid, made.uid)

    sower = threading.Thread(target=sow)
    sower.start()
    try:
        with pytest.raises(HostFailed) as left:
            await accounts.revoke(login, ground.tell)
    finally:
        stop.set()
        sower.join()
    assert left.value.code == "leftovers"
    assert "files" in str(left.value)
    assert await accounts.logins() == [login]
    await accounts.revoke(login, ground.tell)
    assert machine.remains(made.uid, login) == {}


async def test_all_accounts_are_made_and_taken_away_at_once(ground: Ground) -> None:
    accounts, logins = ground.accounts(), [ground.login() for _ in range(len(ground.uids))]
    made = await asyncio.gather(*(accounts.provision(login, [], [], ground.tell) for login in logins))
    assert sorted(account.uid for account in made) == list(ground.uids)
    with pytest.raises(HostFailed) as none_left:
        await accounts.provision(ground.login(), [], [], ground.tell)
    assert none_left.value.code == "uids_used_up"
    await asyncio.gather(*(accounts.revoke(login, ground.tell) for login in logins))
    assert [machine.remains(account.uid, login) for account, login in zip(made, logins, strict=True)] == [{}] * len(
        made
    )
