"""Tenants' accounts on a real Linux: made, made again, refused, taken away without a trace."""

import subprocess
import time
from pathlib import Path

import pytest

from gpuaas.ports.host import HostFailed
from tests.infra.hosts_linux import machine
from tests.infra.hosts_linux.conftest import Ground
from tests.infra.hosts_linux.machine import Sshd

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"

BUSY = """
setsid sleep 3000 </dev/null >/dev/null 2>&1 &
nohup sleep 3001 </dev/null >/dev/null 2>&1 &
( ( exec sleep 3002 </dev/null >/dev/null 2>&1 & ) & )
command -v tmux >/dev/null && tmux new-session -d 'sleep 3003'
touch /tmp/"$USER".txt /var/tmp/"$USER".txt /dev/shm/"$USER".shm
mkdir -p /tmp/"$USER".d/a/b && ln -s /etc/passwd /tmp/"$USER".d/a/link
echo '* * * * * touch /tmp/'"$USER"'.cron' | crontab -
command -v at >/dev/null && echo 'touch /tmp/from-at' | at now + 2 days 2>/dev/null
ipcmk --shmem 4096 >/dev/null; ipcmk --semaphore 2 >/dev/null; ipcmk --queue >/dev/null
sleep 0.3; echo ready
"""


async def test_an_account_logs_in_by_its_key_and_by_no_other(ground: Ground, sshd: Sshd) -> None:
    login, stranger = ground.login(), sshd.new_key("stranger")
    made = await ground.accounts().provision(login, [sshd.public_key], [], ground.tell)
    said = sshd.run(login, "id -un; pwd; id -u; ulimit -u; stat -c %a . .ssh .ssh/authorized_keys")
    assert said.stdout.split() == [login, made.home, str(made.uid), "200", "700", "700", "600"], said.stderr
    assert made.uid in ground.uids
    assert sshd.run(login, "true", key=stranger).returncode == 255


async def test_sshd_without_pam_lets_it_in_and_keeps_the_drained_out(ground: Ground, tmp_path: Path) -> None:
    login, accounts = ground.login(), ground.accounts()
    with machine.sshd(tmp_path, pam=False) as plain:
        await accounts.provision(login, [plain.public_key], [], ground.tell)
        assert plain.run(login, "true").returncode == 0
        await accounts.drain(drained=True)
        assert plain.run(login, "true").returncode == 255
        await accounts.drain(drained=False)
        assert plain.run(login, "true").returncode == 0


async def test_after_a_revocation_nothing_of_the_uid_remains(ground: Ground, sshd: Sshd, tmp_path: Path) -> None:
    login, accounts = ground.login(), ground.accounts()
    made = await accounts.provision(login, [sshd.public_key], [], ground.tell)
    assert sshd.run(login, BUSY).stdout.split()[-1] == "ready"
    before = machine.remains(made.uid, login)
    assert len(before["processes"]) >= 3
    assert len(before["ipc"]) == 3
    assert {"/tmp/" + login + ".txt", "/var/tmp/" + login + ".txt", "/dev/shm/" + login + ".shm"} <= set(
        before["files"]
    )
    assert any("crontabs" in str(path) for path in before["files"])
    make_queue(made.uid)
    assert machine.queues(made.uid, tmp_path / "mq") == ["left"]

    ended = await accounts.revoke(login, ground.tell)
    assert machine.remains(made.uid, login) == {}
    assert machine.queues(made.uid, tmp_path / "mq") == []
    assert ended.existed
    assert ended.ended_processes >= 3
    assert sshd.run(login, "true").returncode == 255
    assert await accounts.logins() == []


def make_queue(uid: int) -> None:
    code = "import ctypes; assert ctypes.CDLL('librt.so.1').mq_open(b'/left', 0o102, 0o600, None) >= 0"
    subprocess.run(["/usr/bin/python3", "-c", code], user=uid, group=uid, extra_groups=[], check=True)


async def test_a_session_that_runs_is_ended_by_the_revocation(ground: Ground, sshd: Sshd) -> None:
    login, accounts = ground.login(), ground.accounts()
    made = await accounts.provision(login, [sshd.public_key], [], ground.tell)
    command = ["ssh", "-F", "none", "-q", "-i", str(sshd.key), "-p", str(sshd.port), "-o", "StrictHostKeyChecking=no"]
    command += ["-o", "UserKnownHostsFile=/dev/null", f"{login}@127.0.0.1", "sleep 3000"]
    session = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 20
    while len(machine.processes(made.uid)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    await accounts.revoke(login, ground.tell)
    assert session.wait(20) != 0
    assert machine.remains(made.uid, login) == {}


async def test_making_it_again_replaces_its_keys_and_keeps_the_rest(ground: Ground, sshd: Sshd) -> None:
    login, second = ground.login(), sshd.new_key("second")
    first = await ground.accounts().provision(login, [sshd.public_key], [], ground.tell)
    assert sshd.run(login, "echo mine > kept; chmod 755 .; echo more >> .ssh/authorized_keys").returncode == 0
    keys = [" ".join(second.with_suffix(".pub").read_text().split()[:2])]
    again = await ground.accounts().provision(login, keys, ["GPU-1"], ground.tell)
    assert again == first
    assert sshd.run(login, "true").returncode == 255
    assert sshd.run(login, "cat kept; stat -c %a .", key=second).stdout.split() == ["mine", "700"]
    assert Path(first.home, ".ssh/authorized_keys").read_text().splitlines() == keys


async def test_revoking_twice_and_what_never_was_ends_the_same(ground: Ground) -> None:
    login, accounts = ground.login(), ground.accounts()
    made = await accounts.provision(login, [KEY], [], ground.tell)
    assert (await accounts.revoke(login, ground.tell)).existed
    assert not (await accounts.revoke(login, ground.tell)).existed
    assert not (await accounts.revoke(ground.login(), ground.tell)).existed
    assert machine.remains(made.uid, login) == {}


async def test_a_uid_is_not_given_to_the_next_account(ground: Ground) -> None:
    accounts, uids = ground.accounts(), []
    for _ in range(3):
        login = ground.login()
        uids.append((await accounts.provision(login, [KEY], [], ground.tell)).uid)
        await accounts.revoke(login, ground.tell)
    assert len(set(uids)) == 3


async def test_a_uid_somebody_has_is_left_alone(ground: Ground) -> None:
    squatter, login = ground.login(), ground.login()
    subprocess.run(["useradd", "-M", "-u", str(ground.uids[0]), squatter], check=True)
    made = await ground.accounts().provision(login, [KEY], [], ground.tell)
    assert made.uid != ground.uids[0]


async def test_a_name_that_is_no_login_of_ours_reaches_no_command(ground: Ground) -> None:
    for login in ("root", "daemon", "g;id", "g/../x", "", "-g", "gx\n", "g" * 33, "G1", "gpu aas", "g\0"):
        with pytest.raises(HostFailed, match=r"xpected"):
            await ground.accounts().provision(login, [KEY], [], ground.tell)
        with pytest.raises(HostFailed, match="no login of ours"):
            await ground.accounts().revoke(login, ground.tell)
    assert ground.phases == []


async def test_a_key_with_options_or_lines_is_refused(ground: Ground) -> None:
    for key in ('command="id" ' + KEY, KEY + "\nssh-rsa AAAA", KEY + " comment", "x"):
        with pytest.raises(HostFailed, match="ssh_keys"):
            await ground.accounts().provision(ground.login(), [key], [], ground.tell)
    assert await ground.accounts().logins() == []


async def test_an_account_of_somebody_else_is_never_touched(ground: Ground) -> None:
    login = ground.login()
    uid = ground.uids[-1] + 1
    subprocess.run(["useradd", "-M", "-u", str(uid), login], check=True)
    before = machine.names(login)
    for verb in (
        lambda: ground.accounts().provision(login, [KEY], [], ground.tell),
        lambda: ground.accounts().revoke(login, ground.tell),
    ):
        with pytest.raises(HostFailed) as refused:
            await verb()
        assert refused.value.code == "login_not_ours"
    assert machine.names(login) == before


async def test_a_drained_host_takes_no_login_and_no_new_account(ground: Ground, sshd: Sshd) -> None:
    login, accounts = ground.login(), ground.accounts()
    await accounts.provision(login, [sshd.public_key], [], ground.tell)
    await accounts.drain(drained=True)
    await ground.accounts().provision(login, [sshd.public_key], [], ground.tell)
    assert sshd.run(login, "true").returncode != 0
    with pytest.raises(HostFailed) as refused:
        await ground.accounts().provision(ground.login(), [KEY], [], ground.tell)
    assert refused.value.code == "drained"
    await accounts.drain(drained=False)
    assert sshd.run(login, "true").returncode == 0


async def test_an_account_is_known_and_revoked_though_our_state_was_lost(ground: Ground) -> None:
    login = ground.login()
    made = await ground.accounts().provision(login, [KEY], [], ground.tell)
    for file in (ground.state / "accounts").iterdir():
        file.unlink()
    assert await ground.accounts().logins() == [login]
    assert (await ground.accounts().revoke(login, ground.tell)).existed
    assert machine.remains(made.uid, login) == {}


@pytest.mark.parametrize("damage", ["shadow", "group only", "home of root", "locked"])
async def test_an_account_that_is_half_there_is_made_whole(ground: Ground, sshd: Sshd, damage: str) -> None:
    login = ground.login()
    made = await ground.accounts().provision(login, [sshd.public_key], [], ground.tell)
    if damage == "shadow":
        subprocess.run(["sed", "-i", f"/^{login}:/d", "/etc/shadow"], check=True)
    elif damage == "group only":
        subprocess.run(["userdel", "-f", login], check=True, capture_output=True)
        subprocess.run(["groupadd", "-g", str(ground.uids[-1]), login], check=True)
    elif damage == "home of root":
        subprocess.run(["chown", "0:0", made.home], check=True)
    else:
        subprocess.run(["usermod", "-L", "-e", "1", "-s", "/usr/sbin/nologin", login], check=True)
    again = await ground.accounts().provision(login, [sshd.public_key], [], ground.tell)
    assert again.uid == made.uid
    assert sshd.run(login, "id -u").stdout.strip() == str(made.uid)


async def test_a_suspended_account_is_closed_and_quiet_and_keeps_what_it_has(ground: Ground, sshd: Sshd) -> None:
    login, accounts = ground.login(), ground.accounts()
    made = await accounts.provision(login, [sshd.public_key], ["GPU-1"], ground.tell)
    assert sshd.run(login, BUSY + "echo mine > kept").stdout.split()[-1] == "ready"
    ended = await accounts.suspend(login, ground.tell)
    assert ended.ended_processes >= 3
    left = machine.remains(made.uid, login)
    assert "processes" not in left
    assert "ipc" not in left
    assert not any("crontabs" in str(path) for path in left["files"])
    assert Path(made.home, "kept").read_text() == "mine\n"
    assert Path(f"/tmp/{login}.txt").exists()
    assert sshd.run(login, "true").returncode != 0
    assert await accounts.logins() == [login]
    assert (accounts.holders(), accounts.openers()) == ({"GPU-1": made.uid}, {})

    again = await accounts.provision(login, [sshd.public_key], ["GPU-1"], ground.tell)
    assert again == made
    assert sshd.run(login, "cat kept; id -u").stdout.split() == ["mine", str(made.uid)]
    assert accounts.openers() == {"GPU-1": made.uid}


async def test_sshd_without_pam_keeps_the_suspended_out(ground: Ground, tmp_path: Path) -> None:
    login, accounts = ground.login(), ground.accounts()
    with machine.sshd(tmp_path, pam=False) as plain:
        await accounts.provision(login, [plain.public_key], [], ground.tell)
        await accounts.suspend(login, ground.tell)
        assert plain.run(login, "true").returncode == 255
        await accounts.provision(login, [plain.public_key], [], ground.tell)
        assert plain.run(login, "true").returncode == 0


async def test_suspending_twice_and_what_never_was_ends_the_same(ground: Ground) -> None:
    login, accounts = ground.login(), ground.accounts()
    await accounts.provision(login, [KEY], [], ground.tell)
    assert (await accounts.suspend(login, ground.tell)).existed
    assert (await accounts.suspend(login, ground.tell)).existed
    assert not (await accounts.suspend(ground.login(), ground.tell)).existed
    with pytest.raises(HostFailed, match="no login of ours"):
        await accounts.suspend("root", ground.tell)


async def test_a_host_that_is_opened_after_a_drain_opens_no_suspended_account(ground: Ground, sshd: Sshd) -> None:
    login, accounts = ground.login(), ground.accounts()
    await accounts.provision(login, [sshd.public_key], [], ground.tell)
    await accounts.suspend(login, ground.tell)
    await accounts.drain(drained=True)
    await accounts.drain(drained=False)
    expires = next(line for line in machine.names(login) if line.count(":") == 8).split(":")[7]
    assert (expires, sshd.run(login, "true").returncode) == ("1", 255)


async def test_nothing_is_left_of_a_suspended_account_that_is_revoked(ground: Ground, sshd: Sshd) -> None:
    login, accounts = ground.login(), ground.accounts()
    made = await accounts.provision(login, [sshd.public_key], [], ground.tell)
    assert sshd.run(login, BUSY).returncode == 0
    await accounts.suspend(login, ground.tell)
    await accounts.revoke(login, ground.tell)
    assert machine.remains(made.uid, login) == {}
