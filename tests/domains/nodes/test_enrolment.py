"""Enrolment as machines and strangers try it: before anybody can sign tasks, by the rack, guessing, too late."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from gpuaas.kit.ids import new_id
from gpuaas.kit.secrets import BOOTSTRAP_PREFIX, new_token
from tests.domains.nodes.test_nodes import enrol
from tests.support.fleet import Fleet
from tests.support.people import at_once, found, refusal

WIDE = ("rate_limit.auth_per_minute", "rate_limit.auth_burst")
RACK = 150
"""More at once than an address may fail to log in."""


@pytest.fixture
async def forgotten(fleet: Fleet, superuser: Any) -> AsyncIterator[None]:
    """The limits are those of an installation, and who called before is forgotten."""
    wide = {name: fleet.city.policy.values.pop(name) for name in WIDE}
    await superuser.execute("DELETE FROM rate_marks")
    yield
    fleet.city.policy.values |= wide


async def test_before_anybody_can_sign_tasks_nobody_is_enrolled_and_the_token_stays_good(
    fleet: Fleet, superuser: Any
) -> None:
    made, key = await fleet.created(), new_id().hex
    await superuser.execute("CREATE TEMP TABLE kept AS SELECT * FROM task_keys")
    await superuser.execute("DELETE FROM task_keys")
    early = await enrol(fleet, made["token"], key=key)
    assert refusal(early) == (503, "dependency_unavailable")
    assert int(early.headers["retry-after"]) >= 1
    assert refusal(await enrol(fleet, new_token(BOOTSTRAP_PREFIX))) == (401, "bootstrap_token_refused")
    assert (await fleet.node(made["id"]))["state"] == "enrolling"
    await superuser.execute("INSERT INTO task_keys SELECT * FROM kept")
    enrolled = found(await enrol(fleet, made["token"], key=key), 201)
    assert enrolled["trust"]["task_keys"]


async def test_a_rack_is_enrolled_at_once_from_one_address(fleet: Fleet, forgotten: None) -> None:
    made = [await fleet.created() for _ in range(RACK)]
    answers = await at_once(*(enrol(fleet, one["token"]) for one in made))
    assert {answer.status_code for answer in answers} == {201}
    assert {answer.json()["node_id"] for answer in answers} == {one["id"] for one in made}


async def test_who_guesses_tokens_is_shut_out_soon_and_let_in_later(
    fleet: Fleet, forgotten: None, superuser: Any
) -> None:
    fleet.city.policy.values |= {"rate_limit.auth_per_minute": 1, "rate_limit.auth_burst": 5}
    made = await fleet.created()
    guesses = [await enrol(fleet, new_token(BOOTSTRAP_PREFIX)) for _ in range(8)]
    said = [refusal(answer) for answer in guesses]
    assert said == [(401, "bootstrap_token_refused")] * 5 + [(429, "rate_limited")] * 3
    assert refusal(await enrol(fleet, made["token"])) == (429, "rate_limited")
    await superuser.execute("UPDATE rate_marks SET next_at = now() - interval '1 second'")
    found(await enrol(fleet, made["token"]), 201)


async def test_good_enrolments_cost_nothing_of_what_logins_may_fail(
    fleet: Fleet, forgotten: None, superuser: Any
) -> None:
    for _ in range(3):
        found(await enrol(fleet, (await fleet.created())["token"]), 201)
    lanes = {row["lane"] for row in await superuser.fetch("SELECT DISTINCT lane FROM rate_marks")}
    assert "enrolment" in lanes
    assert "auth" not in lanes


@pytest.mark.parametrize("how", ["removed", "disabled"])
async def test_the_token_of_a_node_that_is_not_wanted_is_worth_nothing(fleet: Fleet, forgotten: None, how: str) -> None:
    agent = await fleet.ready()
    again = await fleet.order(f"/nodes/{agent.id}/reenrol", {"reason": "a new disk"}, 201)
    if how == "removed":
        assert (await fleet.city.ask(fleet.admin, "DELETE", f"/nodes/{agent.id}")).status_code == 200
        assert refusal(await enrol(fleet, again["token"])) == (401, "bootstrap_token_refused")
        return
    await fleet.order(f"/nodes/{agent.id}/disable", {"reason": "sold"}, 200)
    assert refusal(await enrol(fleet, again["token"])) == (409, "state_move_refused")
    await fleet.order(f"/nodes/{agent.id}/enable", None, 200)
    assert found(await enrol(fleet, again["token"]), 201)["node_id"] == str(agent.id)


async def test_a_token_makes_its_own_node_whatever_the_request_says(fleet: Fleet, forgotten: None) -> None:
    mine, other = await fleet.created(), await fleet.created()
    body = {"token": mine["token"], "csr": "x" * 100, "agent_version": "0.1.0", "node_id": other["id"]}
    assert refusal(await fleet.city.ask(None, "POST", "/nodes/enrol", body)) == (422, "request_invalid")
    assert UUID(found(await enrol(fleet, mine["token"]), 201)["node_id"]) == UUID(mine["id"])
    assert (await fleet.node(other["id"]))["state"] == "enrolling"


async def test_a_token_past_its_hour_is_refused(fleet: Fleet, forgotten: None, superuser: Any) -> None:
    made = await fleet.created()
    await superuser.execute(
        "UPDATE bootstrap_tokens SET created_at = created_at - interval '2 hours', "
        "expires_at = expires_at - interval '2 hours' WHERE node_id = $1",
        UUID(made["id"]),
    )
    assert refusal(await enrol(fleet, made["token"])) == (401, "bootstrap_token_refused")
