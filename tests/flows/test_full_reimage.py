"""Isolation by reimage: a project whose policy says so gets whole nodes, and each is installed anew before the next
tenant; one that cannot be is in quarantine."""

import base64
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import msgspec
import pytest

from gpuaas.contracts.certificates import SanitisationStatement
from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.contracts.tasks.catalogue import CleaningMethod
from gpuaas.domains.allocations.certificates import service as certificates
from gpuaas.domains.allocations.models import login_of
from gpuaas.infra.hosts.simulated.accounts import processes_of
from gpuaas.infra.hosts.simulated.store import Reality
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import dsse
from tests.support.fleet import EVERYTHING
from tests.support.ground import Ground, Machine, ground_of
from tests.support.people import found, refusal

POLICY = "allocations.isolation"


@pytest.fixture(scope="module")
async def ground(db: Database) -> AsyncIterator[Ground]:
    async with ground_of(db, machines=0) as made:
        made.fleet.city.policy.values[POLICY] = "full-reimage"
        yield made


@pytest.fixture
async def machine(ground: Ground) -> Machine:
    return await ground.anew()


def reality(ground: Ground, machine: Machine) -> Reality:
    """What is on the machine's disk, as whoever looks at it finds it."""
    return msgspec.json.decode((ground.directory / machine.id.hex / "host" / "host.json").read_bytes(), type=Reality)


async def whole(ground: Ground) -> UUID:
    """All of a node, active, asked for as its tenant does."""
    made = found(await ground.ask(gpu_count=8), 202)
    await ground.run()
    allocation = await ground.read(UUID(made["id"]))
    assert (allocation.state, allocation.isolation) == (AllocationState.ACTIVE, "full-reimage"), allocation.failure
    return allocation.id


async def released(ground: Ground, allocation_id: UUID) -> SanitisationStatement:
    """Given back; what its certificate says."""
    found(await ground.say("POST", f"/{allocation_id}/release", {}), 202)
    await ground.run()
    assert (await ground.read(allocation_id)).state is AllocationState.RELEASED
    async with ground.db.read(EVERYTHING) as tx:
        [certificate] = await certificates.of_allocation(tx, allocation_id)
    envelope = msgspec.json.decode(certificate.envelope, type=dsse.Envelope)
    return msgspec.json.decode(base64.b64decode(envelope.payload), type=SanitisationStatement)


async def holds(superuser: Any, allocation_id: UUID) -> list[tuple[str, bool]]:
    rows = await superuser.fetch(
        "SELECT h.state, EXISTS (SELECT FROM slot_quarantines q "
        "WHERE q.slot_id = h.slot_id AND q.ended_at IS NULL) AS q FROM slot_holds h WHERE h.allocation_id = $1",
        allocation_id,
    )
    return [(row["state"], row["q"]) for row in rows]


@pytest.mark.parametrize("gpu_count", [1, 2, 4])
async def test_less_than_a_node_cannot_be_asked_for(ground: Ground, machine: Machine, gpu_count: int) -> None:
    assert refusal(await ground.ask(gpu_count=gpu_count)) == (422, "allocation_refused")


async def test_a_release_installs_the_node_anew_and_its_certificate_says_so(
    ground: Ground, machine: Machine, superuser: Any
) -> None:
    before = reality(ground, machine)
    allocation_id = await whole(ground)
    login = login_of(allocation_id)
    home = ground.directory / machine.id.hex / "host" / "homes" / login
    left_running = machine.host.leave_running(login, 600)
    assert processes_of(home) == [left_running]
    stray = home.parent / "somebody-else"
    stray.mkdir()
    (stray / "secret").write_text("of a tenant long gone, whose account is not there any more")

    statement = await released(ground, allocation_id)

    after = reality(ground, machine)
    assert after.image == before.image + 1
    assert after.boot_id != before.boot_id
    assert not stray.exists()
    assert processes_of(home) == []
    [imaged] = [one for one in statement.cleanings if one.method is CleaningMethod.REIMAGED]
    assert imaged.clean
    assert f"image {after.image} installed" in imaged.evidence
    assert after.boot_id in imaged.evidence
    assert statement.isolation == "full-reimage"
    assert [gpu.clean for gpu in statement.gpus] == [True] * 8
    assert await holds(superuser, allocation_id) == [("clean", False)] * 8
    assert await ground.leftovers() == []


async def test_the_next_tenant_meets_another_host_key(ground: Ground, machine: Machine) -> None:
    keys = []
    for _ in range(2):
        allocation_id = await whole(ground)
        shown = found(await ground.say("GET", f"/{allocation_id}"), 200)
        keys.append(shown["connections"][0]["host_keys"])
        await released(ground, allocation_id)
    assert keys[0] != keys[1]


async def test_asked_for_twice_it_is_installed_once(ground: Ground, machine: Machine) -> None:
    async def quiet(name: str, detail: str) -> None:
        assert name

    await released(ground, await whole(ground))
    installed = reality(ground, machine)
    [again] = await machine.host.sanitise([], reimage=True, tell=quiet)
    assert again.clean
    assert (reality(ground, machine).image, reality(ground, machine).boot_id) == (installed.image, installed.boot_id)
    assert [effect for effect in reality(ground, machine).effects if "image" in effect] == [
        f"installed image {installed.image}"
    ]


async def test_a_node_that_cannot_be_installed_anew_is_in_quarantine_and_offered_to_nobody(
    ground: Ground, machine: Machine, superuser: Any
) -> None:
    before = reality(ground, machine)
    allocation_id = await whole(ground)
    machine.host.refuse_image()
    statement = await released(ground, allocation_id)
    [imaged] = [one for one in statement.cleanings if one.method is CleaningMethod.REIMAGED]
    assert not imaged.clean
    assert [gpu.clean for gpu in statement.gpus] == [False] * 8
    assert all("installer failed" in gpu.detail for gpu in statement.gpus)
    assert reality(ground, machine).image == before.image
    assert await holds(superuser, allocation_id) == [("quarantined", True)] * 8
    assert refusal(await ground.ask(gpu_count=8, if_full="refuse")) == (409, "capacity_missing")
    assert await ground.leftovers() == []


async def test_no_node_is_installed_anew_under_the_hands_of_an_account(ground: Ground, machine: Machine) -> None:
    """An account nobody released: the release fails, and what it held stays held."""

    async def quiet(name: str, detail: str) -> None:
        assert name

    allocation_id = await whole(ground)
    await machine.host.provision("gstranger", [], [], tell=quiet)
    before = reality(ground, machine)
    found(await ground.say("POST", f"/{allocation_id}/release", {}), 202)
    await ground.run()
    failed = await ground.read(allocation_id)
    assert failed.state is AllocationState.RELEASE_FAILED
    assert "gstranger" in failed.failure
    assert reality(ground, machine).image == before.image
    await machine.host.revoke("gstranger", tell=quiet)
