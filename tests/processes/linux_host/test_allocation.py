"""An allocation on a real Linux host, from the request to the certificate: a real account, a real sshd, real leftovers;
only the GPU is a stand-in."""

import base64
import os
import pwd
from collections.abc import Callable
from uuid import UUID

import msgspec
import pytest

from gpuaas.contracts.certificates import SanitisationStatement
from gpuaas.contracts.tasks.catalogue import CleaningMethod
from gpuaas.domains.allocations.models import login_of
from gpuaas.kit import dsse
from tests.infra.hosts_linux import machine
from tests.processes.linux_host.conftest import GpuHost
from tests.support.site import ENDED, Site

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("linux_host")]
LEAVES = """
setsid sleep 3000 </dev/null >/dev/null 2>&1 &
nohup sleep 3001 </dev/null >/dev/null 2>&1 &
echo secret > /tmp/"$USER".txt; mkdir -p /var/tmp/"$USER".d/a; echo secret > /var/tmp/"$USER".d/a/b
echo secret > /dev/shm/"$USER".shm; echo secret > model.bin
echo '* * * * * touch /tmp/'"$USER"'.cron' | crontab -
ipcmk --shmem 4096 >/dev/null
sleep 0.3; echo ready
"""
PROVISIONED = "SELECT (result ->> 'uid')::int AS uid FROM tasks WHERE subject_id = $1 AND type = 'user.provision'"


async def statement_of(site: Site, allocation_id: str) -> SanitisationStatement:
    [certificate_id] = (await site.show(allocation_id))["certificate_ids"]
    path = site.project.removesuffix("allocations") + f"certificates/{certificate_id}"
    answer = await site.ask("GET", path)
    envelope = msgspec.json.decode(answer.json()["envelope"], type=dsse.Envelope)
    return msgspec.json.decode(base64.b64decode(envelope.payload), type=SanitisationStatement)


async def test_its_tenant_logs_in_leaves_a_mess_and_after_the_release_nothing_of_him_is_there(
    site: Site, node: str, gpu_host: GpuHost, sshd: machine.Sshd, swept: Callable[[str, int], None]
) -> None:
    allocation_id = await site.allocate(ssh_keys=[sshd.public_key])
    shown = await site.until(allocation_id, "active", *ENDED)
    assert shown["state"] == "active", shown["failure"]
    [connection] = shown["connections"]
    login = connection["login"]
    uid = pwd.getpwnam(login).pw_uid
    swept(login, uid)
    assert [gpu["serial"] for gpu in shown["gpus"]] == [gpu_host.serial]

    assert sshd.run(login, "id -un").stdout.strip() == login
    assert sshd.run(login, LEAVES).stdout.split()[-1:] == ["ready"]
    before = machine.remains(uid, login)
    assert set(before) == {"processes", "files", "ipc", "names"}
    assert f"/tmp/{login}.txt" in before["files"]

    await site.release(allocation_id)
    ended = await site.until(allocation_id, *ENDED)
    assert ended["state"] == "released", ended["failure"]
    assert machine.remains(uid, login) == {}
    assert not os.path.exists(f"/home/{login}")
    assert sshd.run(login, "true").returncode == 255
    statement = await statement_of(site, allocation_id)
    assert statement.account_removed
    assert statement.processes_ended >= 2
    assert [(gpu.serial, gpu.clean) for gpu in statement.gpus] == [(gpu_host.serial, True)]
    methods = {cleaning.method: cleaning.evidence for cleaning in statement.cleanings if cleaning.clean}
    assert "read back as zero" in methods[CleaningMethod.MEMORY_CLEARED]
    assert "reset" in methods[CleaningMethod.RESET]
    await site.sellable(1)
    await site.sound()


async def test_a_gpu_that_fails_its_proof_fails_the_allocation_and_leaves_nothing(
    site: Site, node: str, gpu_host: GpuHost, sshd: machine.Sshd, swept: Callable[[str, int], None]
) -> None:
    gpu_host.sick.touch()
    allocation_id = await site.allocate(ssh_keys=[sshd.public_key])
    ended = await site.until(allocation_id, *ENDED)
    login = login_of(UUID(allocation_id))
    [account] = await site.sql(PROVISIONED, allocation_id)
    swept(login, account["uid"])
    assert (ended["state"], ended["failure"]["code"], ended["active_at"]) == ("failed", "health_proof_failed", None)
    assert "ecc" in ended["failure"]["reason"]
    assert machine.remains(account["uid"], login) == {}
    assert sshd.run(login, "true").returncode == 255
    [hold] = await site.sql("SELECT state, slot_id FROM slot_holds WHERE allocation_id = $1", allocation_id)
    assert hold["state"] == "quarantined", "nobody is given it until it is well"
    quarantined = "SELECT count(*) FROM slot_quarantines WHERE slot_id = $1 AND ended_at IS NULL"
    assert (await site.sql(quarantined, hold["slot_id"]))[0]["count"] == 1
    statement = await statement_of(site, allocation_id)
    assert [(gpu.serial, gpu.clean) for gpu in statement.gpus] == [(gpu_host.serial, False)]
    await site.sound()
