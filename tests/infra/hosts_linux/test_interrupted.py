"""The agent dies in the middle of making or taking away an account: done again, it ends as if nothing had happened."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.infra.hosts_linux import machine
from tests.infra.hosts_linux.conftest import Ground
from tests.infra.hosts_linux.machine import Sshd

REPOSITORY = Path(__file__).parents[3]
MAKING = ["recorded", "account_made", "home_made", "keys_written", "limits_written", "gpus_opened", "proven"]
TAKING = ["locked", "timers_removed", "processes_ended", "gpus_closed", "files_removed", "account_removed", "proven"]

CLOSING = ["locked", "timers_removed", "processes_ended", "gpus_closed", "keys_removed", "proven"]


def killed(ground: Ground, verb: str, login: str, key: str, phase: str) -> None:
    """Run the verb in a process of its own that ends, without a word, when it tells of this phase."""
    arguments = [verb, login, key, str(ground.uids[0]), str(ground.uids[-1]), str(ground.state), phase]
    program = [sys.executable, "-m", "tests.infra.hosts_linux.interrupted", *arguments]
    ended = subprocess.run(program, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL, f"{phase} was never reached: {ended.stderr}"


async def test_every_phase_is_one_that_is_interrupted_here(ground: Ground) -> None:
    login, accounts = ground.login(), ground.accounts()
    await accounts.provision(login, [], [], ground.tell)
    await accounts.suspend(login, ground.tell)
    await accounts.revoke(login, ground.tell)
    assert ground.phases == MAKING + CLOSING + TAKING


@pytest.mark.parametrize("phase", MAKING)
async def test_an_account_made_again_after_a_crash_logs_in(ground: Ground, sshd: Sshd, phase: str) -> None:
    login = ground.login()
    killed(ground, "provision", login, sshd.public_key, phase)
    assert await ground.accounts().logins() == [login]
    made = await ground.accounts().provision(login, [sshd.public_key], [], ground.tell)
    assert made.uid == ground.uids[0]
    assert sshd.run(login, "id -u").stdout.strip() == str(made.uid)
    await ground.accounts().revoke(login, ground.tell)
    assert machine.remains(made.uid, login) == {}


@pytest.mark.parametrize("phase", MAKING)
async def test_an_account_that_was_half_made_is_taken_away(ground: Ground, phase: str) -> None:
    login = ground.login()
    killed(ground, "provision", login, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA", phase)
    await ground.accounts().revoke(login, ground.tell)
    assert machine.remains(ground.uids[0], login) == {}
    assert await ground.accounts().logins() == []


@pytest.mark.parametrize("phase", TAKING)
async def test_taking_away_goes_on_after_a_crash(ground: Ground, sshd: Sshd, phase: str) -> None:
    login = ground.login()
    made = await ground.accounts().provision(login, [sshd.public_key], [], ground.tell)
    busy = (
        "setsid sleep 900 </dev/null >/dev/null 2>&1 & echo x > /tmp/$USER; ipcmk -M 64; echo '@daily id' | crontab -"
    )
    assert sshd.run(login, busy).returncode == 0
    killed(ground, "revoke", login, "", phase)
    assert sshd.run(login, "true").returncode != 0
    await ground.accounts().revoke(login, ground.tell)
    assert machine.remains(made.uid, login) == {}
    assert await ground.accounts().logins() == []


async def test_what_was_half_taken_away_is_gone_before_it_is_made_anew(ground: Ground, sshd: Sshd) -> None:
    login = ground.login()
    await ground.accounts().provision(login, [sshd.public_key], [], ground.tell)
    assert sshd.run(login, "echo old > old; echo old > /tmp/$USER.old").returncode == 0
    killed(ground, "revoke", login, "", "locked")
    await ground.accounts().provision(login, [sshd.public_key], [], ground.tell)
    assert sshd.run(login, "ls -A | grep -v ^.ssh; ls /tmp/$USER.old").stdout == ""


@pytest.mark.parametrize("phase", CLOSING)
async def test_a_suspension_goes_on_after_a_crash_and_the_account_opens_again(
    ground: Ground, sshd: Sshd, phase: str
) -> None:
    login, accounts = ground.login(), ground.accounts()
    made = await accounts.provision(login, [sshd.public_key], [], ground.tell)
    busy = "echo mine > kept; setsid sleep 900 </dev/null >/dev/null 2>&1 & ipcmk -M 64; echo '@daily id' | crontab -"
    assert sshd.run(login, busy).returncode == 0
    killed(ground, "suspend", login, "", phase)
    assert sshd.run(login, "true").returncode != 0
    ended = await ground.accounts().suspend(login, ground.tell)
    assert ended.existed
    assert (machine.processes(made.uid), machine.ipc(made.uid)) == ([], [])
    assert Path(made.home, "kept").read_text() == "mine\n"

    again = await ground.accounts().provision(login, [sshd.public_key], [], ground.tell)
    assert again == made
    assert sshd.run(login, "cat kept").stdout == "mine\n"


@pytest.mark.parametrize("phase", MAKING)
async def test_an_account_that_was_half_opened_is_closed_again(ground: Ground, sshd: Sshd, phase: str) -> None:
    login = ground.login()
    made = await ground.accounts().provision(login, [sshd.public_key], [], ground.tell)
    assert sshd.run(login, "echo mine > kept").returncode == 0
    await ground.accounts().suspend(login, ground.tell)
    killed(ground, "provision", login, sshd.public_key, phase)
    await ground.accounts().suspend(login, ground.tell)
    assert sshd.run(login, "true").returncode != 0
    assert Path(made.home, "kept").read_text() == "mine\n"
