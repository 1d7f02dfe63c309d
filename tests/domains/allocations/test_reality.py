"""What agents observe against the books, both ways, and what is done about it."""

from typing import Any
from uuid import UUID

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.contracts.tasks.catalogue import SlotLease, SlotUnlease
from gpuaas.domains.allocations.models import Allocation, login_of
from gpuaas.domains.allocations.reality import handlers
from gpuaas.kit.ids import new_id
from tests.support.ground import SSH_KEY, Ground, Machine
from tests.support.people import found, refusal


async def nothing(name: str, detail: str) -> None:
    return


async def long_active(ground: Ground, superuser: Any, gpu_count: int = 1) -> Allocation:
    """An allocation that has been active for longer than an observation may be late."""
    made = await ground.active(gpu_count)
    await age(superuser, made.id)
    return made


async def age(superuser: Any, allocation_id: UUID) -> None:
    await superuser.execute(
        "UPDATE allocations SET state_since = now() - interval '1 minute' WHERE id = $1", allocation_id
    )


async def swept(ground: Ground, machine: Machine, superuser: Any, *, times: int = 1) -> list[dict[str, Any]]:
    """Heartbeats and sweeps, a minute apart; what is open of the machine then."""
    for _ in range(times):
        await superuser.execute("UPDATE orphans SET first_seen_at = first_seen_at - interval '1 minute'")
        await machine.beat()
        await handlers.reality_sweep(ground.parts)
    page = await ground.fleet.city.get(ground.fleet.admin, "/admin/orphans", limit="200")
    return [one for one in page["items"] if one["node_id"] == str(machine.id)]


async def reclaimed(ground: Ground, orphan: dict[str, Any]) -> Any:
    path = f"/admin/orphans/{orphan['id']}/reclaim"
    return await ground.fleet.city.ask(ground.fleet.admin, "POST", path, {"reason": "nobody has it"})


async def events(ground: Ground, orphan: dict[str, Any]) -> tuple[int, int]:
    subject = UUID(orphan["id"])
    return (
        len(await ground.fleet.events("orphan.found", subject)),
        len(await ground.fleet.events("orphan.ended", subject)),
    )


async def test_what_is_gone_is_forgotten_after_its_retention_and_what_is_open_never(
    ground: Ground, superuser: Any
) -> None:
    ids = [new_id() for _ in range(3)]
    await superuser.executemany(
        "INSERT INTO orphans (id, node_id, kind, name, first_seen_at, ended_at) VALUES ($1, $2, 'account', $3, "
        "now() - interval '100 days', now() - make_interval(days => $4))",
        [
            (one, ground.machines[0].id, f"g{one.hex[:8]}{days}", days)
            for one, days in zip(ids, (91, 89, None), strict=True)
        ],
    )
    await handlers.orphans_prune(ground.parts)
    kept = await superuser.fetch("SELECT id FROM orphans WHERE id = ANY($1)", ids)
    assert {row["id"] for row in kept} == set(ids[1:])
    await superuser.execute("DELETE FROM orphans WHERE id = ANY($1)", ids)


async def test_a_node_that_has_what_the_books_say_is_no_news(ground: Ground, superuser: Any) -> None:
    await long_active(ground, superuser, 2)
    assert await swept(ground, ground.machines[0], superuser, times=2) == []


async def test_an_account_of_nobody_is_told_of_in_the_second_sweep_and_taken_away_when_asked(
    ground: Ground, superuser: Any
) -> None:
    machine, login = ground.machines[0], login_of(new_id())
    await machine.host.provision(login, [SSH_KEY], [], tell=nothing)

    [orphan] = await swept(ground, machine, superuser)
    assert (orphan["kind"], orphan["name"], orphan["task_id"]) == ("account", login, None)
    assert await events(ground, orphan) == (0, 0)
    await swept(ground, machine, superuser, times=3)
    assert await events(ground, orphan) == (1, 0)

    asked = found(await reclaimed(ground, orphan), 202)
    again = found(await reclaimed(ground, orphan), 202)
    assert asked["task_id"] == again["task_id"] is not None
    await ground.settle()
    assert await machine.host.accounts() == []
    assert await swept(ground, machine, superuser) == []
    assert await events(ground, orphan) == (1, 1)
    assert refusal(await reclaimed(ground, orphan)) == (404, "orphan_missing")


async def test_what_was_seen_in_one_sweep_only_is_never_told_of(ground: Ground, superuser: Any) -> None:
    machine, login = ground.machines[0], login_of(new_id())
    await machine.host.provision(login, [SSH_KEY], [], tell=nothing)
    [orphan] = await swept(ground, machine, superuser)
    await machine.host.revoke(login, tell=nothing)
    assert await swept(ground, machine, superuser) == []
    assert await events(ground, orphan) == (0, 0)


async def test_a_lease_of_a_failed_allocation_is_ended_when_asked(ground: Ground, superuser: Any) -> None:
    machine = ground.machines[0]
    made = await long_active(ground, superuser)
    await ground.release(made.id)
    await ground.run()
    await machine.leases.lease(SlotLease(allocation_id=made.id, serials=machine.serials[:1]))

    await machine.beat()
    assert await swept(ground, machine, superuser) == [], "it ended just now: what the agent saw may be older"
    await age(superuser, made.id)
    [orphan] = await swept(ground, machine, superuser)
    assert (orphan["kind"], orphan["allocation_id"]) == ("lease", str(made.id))
    assert "released" in orphan["detail"]

    found(await reclaimed(ground, orphan), 202)
    await ground.settle()
    assert machine.leases.all == {}
    assert await swept(ground, machine, superuser) == []


async def test_the_account_and_the_lease_an_active_allocation_lacks_are_made_again(
    ground: Ground, superuser: Any
) -> None:
    machine = ground.machines[0]
    made = await long_active(ground, superuser, 2)
    held = machine.leases.all[made.id]
    await machine.host.revoke(login_of(made.id), tell=nothing)
    await machine.leases.unlease(SlotUnlease(allocation_id=made.id))

    orphans = await swept(ground, machine, superuser, times=2)
    assert {one["kind"] for one in orphans} == {"missing_account", "missing_lease"}
    assert {one["allocation_id"] for one in orphans} == {str(made.id)}
    for orphan in orphans:
        found(await reclaimed(ground, orphan), 202)
    await ground.settle()
    assert await machine.host.accounts() == [login_of(made.id)]
    assert machine.leases.all == {made.id: held}
    assert await swept(ground, machine, superuser) == []
    assert (await ground.read(made.id)).state is AllocationState.ACTIVE


async def test_what_a_live_allocation_has_is_not_touched(ground: Ground, superuser: Any) -> None:
    machine = ground.machines[0]
    made = await ground.active()
    for kind, name in (("account", login_of(made.id)), ("lease", str(made.id))):
        orphan_id = new_id()
        await superuser.execute(
            "INSERT INTO orphans (id, node_id, kind, name) VALUES ($1, $2, $3, $4)", orphan_id, machine.id, kind, name
        )
        assert refusal(await reclaimed(ground, {"id": orphan_id})) == (409, "orphan_in_use")
    await ground.settle()
    assert await machine.host.accounts() == [login_of(made.id)]
    assert made.id in machine.leases.all
    assert await swept(ground, machine, superuser) == [], "it was never so"


async def test_what_an_ended_allocation_lacks_is_not_made(ground: Ground, superuser: Any) -> None:
    machine = ground.machines[0]
    made = await long_active(ground, superuser)
    await machine.host.revoke(login_of(made.id), tell=nothing)
    [orphan] = await swept(ground, machine, superuser)
    await ground.release(made.id)
    assert refusal(await reclaimed(ground, orphan)) == (409, "allocation_not_active")


async def test_a_silent_node_says_nothing_about_what_is_there(ground: Ground, superuser: Any) -> None:
    machine, login = ground.machines[0], login_of(new_id())
    await machine.host.provision(login, [SSH_KEY], [], tell=nothing)
    [orphan] = await swept(ground, machine, superuser, times=2)
    await machine.host.revoke(login, tell=nothing)
    machine.silent = True
    await superuser.execute(
        "UPDATE node_heartbeats SET seen_at = now() - interval '1 hour' WHERE node_id = $1", machine.id
    )
    assert [one["id"] for one in await swept(ground, machine, superuser, times=2)] == [orphan["id"]]
    machine.silent = False
    assert await swept(ground, machine, superuser) == []
    assert await events(ground, orphan) == (1, 1)


async def test_an_account_that_cannot_be_ours_is_not_asked_of_the_node(ground: Ground, superuser: Any) -> None:
    machine = ground.machines[0]
    found(await machine.heartbeat(accounts=["somebody-else"]), 200)
    await handlers.reality_sweep(ground.parts)
    page = await ground.fleet.city.get(ground.fleet.admin, "/admin/orphans", limit="200")
    [orphan] = [one for one in page["items"] if one["node_id"] == str(machine.id)]
    assert refusal(await reclaimed(ground, orphan)) == (409, "state_move_refused")
