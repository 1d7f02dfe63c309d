"""Tasks on their way: created, signed, claimed, told of, ended."""

from tests.support.fleet import Fleet
from tests.support.people import found


async def test_a_node_becomes_sellable_by_being_enrolled_inspected_and_checked(fleet: Fleet):
    agent = await fleet.ready()
    node = await fleet.node(agent)
    assert node["why_not"] == []
    assert node["sellable"] is True
    assert node["liveness"] == "online"
    slots = await fleet.slots(agent)
    assert set(slots) == set(agent.serials)
    assert all(slot["sellable"] for slot in slots.values())


async def test_tasks_come_in_order_and_without_a_gap(fleet: Fleet):
    agent = await fleet.enrolled()
    for _ in range(5):
        await fleet.order(f"/nodes/{agent.id}/inspect")
    await fleet.sign()
    orders = await agent.claim()
    assert [order.sequence for order in orders] == list(range(1, 8))
    assert found(await agent.report(orders[0].task_id, result={"topology": agent.topology()}), 200)["state"] == "done"
