"""How each event of the fleet comes to be told: not by a person's change, but by what an agent says or does not say.
Each story ends with the subject its event is about."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from gpuaas.contracts.tasks.catalogue import Inspect
from gpuaas.domains.nodes.liveness import handlers as liveness
from gpuaas.domains.nodes.tasks import handlers as task_handlers
from gpuaas.domains.nodes.tasks import service as tasks
from tests.support.fleet import EVERYTHING, Agent, Fleet
from tests.support.people import found, refusal

Story = Callable[[Fleet, Any], Awaitable[UUID]]


async def enrolled(fleet: Fleet, _: Any) -> UUID:
    return (await fleet.enrolled()).id


async def silent(fleet: Fleet, superuser: Any, seconds: int = 60) -> Agent:
    agent = await fleet.ready()
    await superuser.execute(
        "UPDATE node_heartbeats SET seen_at = now() - make_interval(secs => $2) WHERE node_id = $1", agent.id, seconds
    )
    await liveness.silence_notice(fleet.city.parts)
    return agent


async def unknown(fleet: Fleet, superuser: Any) -> UUID:
    return (await silent(fleet, superuser)).id


async def lost(fleet: Fleet, superuser: Any) -> UUID:
    return (await silent(fleet, superuser, 3600)).id


async def recovered(fleet: Fleet, superuser: Any) -> UUID:
    agent = await silent(fleet, superuser)
    found(await agent.heartbeat(), 200)
    return agent.id


async def forgetful(fleet: Fleet) -> Agent:
    agent = await fleet.ready()
    agent.next_sequence = 1
    said = refusal(await agent.say("/claim", {"next_sequence": 1, "wait_seconds": 0}))
    assert said == (409, "agent_state_rolled_back")
    return agent


async def quarantined(fleet: Fleet, _: Any) -> UUID:
    return (await forgetful(fleet)).id


async def returned(fleet: Fleet, _: Any) -> UUID:
    agent = await fleet.enrol((await forgetful(fleet)).id)
    await fleet.order(f"/nodes/{agent.id}/return", {"reason": "enrolled again"})
    await work(fleet, agent)
    return agent.id


async def work(fleet: Fleet, agent: Agent) -> None:
    await fleet.sign()
    while await agent.work():
        await fleet.react()


async def slot_quarantined(fleet: Fleet, _: Any) -> UUID:
    agent = await fleet.ready()
    found(await agent.fault(agent.serials[0]), 200)
    return UUID((await fleet.slots(agent))[agent.serials[0]]["id"])


async def slot_returned(fleet: Fleet, _: Any) -> UUID:
    agent = await fleet.ready()
    found(await agent.fault(agent.serials[0]), 200)
    slot_id = (await fleet.slots(agent))[agent.serials[0]]["id"]
    await fleet.order(f"/slots/{slot_id}/return", {"reason": "reseated"})
    await work(fleet, agent)
    return UUID(slot_id)


async def fetched(fleet: Fleet) -> tuple[Agent, UUID]:
    agent = await fleet.ready()
    async with fleet.db.transaction(EVERYTHING, "test") as tx:
        task = await tasks.task_create(tx, agent.id, Inspect())
    await fleet.sign()
    await agent.claim()
    return agent, task.id


async def task_ended(fleet: Fleet, _: Any) -> UUID:
    agent, task_id = await fetched(fleet)
    found(await agent.report(task_id, result={"topology": agent.topology()}), 200)
    return task_id


async def task_reported_late(fleet: Fleet, superuser: Any) -> UUID:
    agent, task_id = await fetched(fleet)
    await superuser.execute("UPDATE tasks SET due_at = now() - interval '1 second' WHERE id = $1", task_id)
    await task_handlers.tasks_overdue(fleet.city.parts)
    found(await agent.report(task_id, result={"topology": agent.topology()}), 200)
    return task_id


STORIES: dict[str, Story] = {
    "node.enrolled": enrolled,
    "node.unknown": unknown,
    "node.lost": lost,
    "node.recovered": recovered,
    "node.quarantined": quarantined,
    "node.returned": returned,
    "slot.quarantined": slot_quarantined,
    "slot.returned": slot_returned,
    "task.ended": task_ended,
    "task.reported_late": task_reported_late,
}
