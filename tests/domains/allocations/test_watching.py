"""Who watches an allocation, and for how long; what a timeline shows of a long life; what a node's words can break."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.domains.allocations.connections.service import accounts_reseal
from gpuaas.domains.allocations.models import Allocation
from gpuaas.domains.allocations.timeline import routes
from gpuaas.domains.allocations.watching.service import MAX_EACH, Watchers
from gpuaas.infra.sealing import FieldSealer
from gpuaas.kit.errors import Unavailable
from gpuaas.kit.ids import new_id
from tests.support.fleet import EVERYTHING, HintsHere
from tests.support.ground import Ground
from tests.support.people import Person, found


class Heard(list[bytes]):
    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()


async def watch(ground: Ground, who: Person, allocation: Allocation, told: Heard) -> bool:
    """Collect what is sent; whether it was sent to its end."""
    path = f"/api/v1/projects/{ground.project_id}/allocations/{allocation.id}/timeline/live"
    whole = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError("nobody leaves")

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            told.append(message.get("body", b""))
            told.begun.set()
            if not message.get("more_body", False):
                whole.set()

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {who.token}".encode()), (b"host", b"test")],
        "client": ("127.0.0.1", 1),
        "server": ("test", 80),
        "scheme": "http",
    }
    app: Any = ground.fleet.city.client._transport.app  # type: ignore[attr-defined] # the application under the client
    await app(scope, receive, send)
    return whole.is_set()


async def test_who_may_not_see_it_any_more_is_sent_nothing_of_what_happens_next(ground: Ground) -> None:
    made, city = await ground.active(), ground.fleet.city
    viewer = await city.person("vera")
    await city.join(ground.owner, str(ground.org_id), viewer, "viewer")
    told = Heard()
    watching = asyncio.create_task(watch(ground, viewer, made, told))
    await asyncio.wait_for(told.begun.wait(), 20)
    path = f"/orgs/{ground.org_id}/members/{viewer.id}"
    assert (await city.ask(ground.owner, "DELETE", path)).status_code in (200, 204)
    await asyncio.sleep(1.2)  # what an actor may do is remembered for a second
    found(await ground.say("POST", f"/{made.id}/renew", {}), 200)
    assert await asyncio.wait_for(watching, 20) is False
    assert b"renewed" not in b"".join(told)


async def test_one_who_watches_everything_leaves_room_for_others() -> None:
    watchers, greedy = Watchers(HintsHere()), new_id()
    held = [watchers.watch(new_id(), greedy) for _ in range(MAX_EACH)]
    for one in held:
        await one.__aenter__()
    with pytest.raises(Unavailable):
        async with watchers.watch(new_id(), greedy):
            pass
    async with watchers.watch(new_id(), new_id()):
        pass
    for one in held:
        await one.__aexit__(None, None, None)
    async with watchers.watch(new_id(), greedy):
        pass


async def test_of_a_long_life_the_latest_moments_are_shown(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MAX_MOMENTS", 3)
    made = await ground.active()
    found(await ground.say("POST", f"/{made.id}/renew", {}), 200)
    shown = found(await ground.say("GET", f"/{made.id}/timeline"), 200)
    assert [moment["phase"] for moment in shown["moments"]][-2:] == ["active", "renewed"]
    assert len(shown["moments"]) == 3


async def test_a_box_that_cannot_be_opened_keeps_no_other_from_being_sealed_anew(
    ground: Ground, superuser: Any
) -> None:
    lost, good = await ground.active(), await ground.active()
    await superuser.execute("UPDATE allocations SET connection_sealed = NULL WHERE id <> ALL($1)", [lost.id, good.id])
    await superuser.execute(
        "UPDATE allocations SET connection_sealed = connection_sealed || 'x'::bytea WHERE id = $1", lost.id
    )
    sealer = ground.parts.get(FieldSealer)
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        new = await sealer.rotate(tx)
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        await accounts_reseal(tx, sealer)
    box = (await ground.read(good.id)).connection_sealed
    assert box is not None
    assert sealer.key_of(box) == new
    shown = found(await ground.say("GET", f"/{lost.id}"), 200)
    assert (shown["state"], shown["connections"]) == ("active", []), "it is shown without what cannot be opened"


async def test_how_to_log_in_is_forgotten_when_nobody_can(ground: Ground) -> None:
    made = await ground.active()
    assert made.connection_sealed is not None
    await ground.release(made.id)
    await ground.run()
    ended = await ground.read(made.id)
    assert (ended.state, ended.connection_sealed) == (AllocationState.RELEASED, None)


async def test_a_node_that_says_the_same_twice_does_not_end_the_sweep(ground: Ground, superuser: Any) -> None:
    from gpuaas.domains.allocations.reality import handlers

    machine, login = ground.machines[0], f"g{new_id().hex[:12]}{new_id().hex[-15:]}"
    found(await machine.heartbeat(accounts=[login, login], leases={}), 200)
    await handlers.reality_sweep(ground.parts)
    rows = await superuser.fetch("SELECT name FROM orphans WHERE node_id = $1 AND ended_at IS NULL", machine.id)
    assert [row["name"] for row in rows] == [login]
    assert isinstance(machine.id, UUID)
