"""Standing and budgets by the command line, on the live API."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.support.terminal import Terminal


@pytest.fixture
async def project(ada: Terminal, past_all_walls: Any) -> tuple[str, UUID]:
    """Its name, and its organisation."""
    await ada.good("projects", "create", name := f"p-{new_id().hex[-12:]}")
    return name, await past_all_walls.fetchval("SELECT org_id FROM projects WHERE name = $1", name)


async def test_how_it_stands_is_shown_with_the_balance_and_on_its_own(
    ada: Terminal, project: tuple[str, UUID], past_all_walls: Any
):
    _, org_id = project
    assert "Standing: good" in (await ada.run("billing", "balance")).err
    await past_all_walls.execute(
        "INSERT INTO standings (org_id, currency, state, due_at, counting_since) "
        "VALUES ($1, 'USD', 'empty', now() + interval '10 minutes', now())",
        org_id,
    )
    shown = await ada.run("billing", "standing")
    assert shown.code == 0
    assert "empty" in shown.out
    assert "stopped" in shown.out
    assert "Top up the balance to stop this at once" in shown.err
    assert (await ada.run("billing", "standing", "-o", "json")).json["standings"][0]["next_rung"] == "stopped"
    assert "Standing: empty" in (await ada.run("billing", "balance")).err
    assert "Standing" not in (await ada.run("billing", "balance", "--at", "1h")).said


async def test_an_operator_gives_time(admin: Terminal, project: tuple[str, UUID]):
    until = (clock.now() + timedelta(days=3)).isoformat()
    assert "good" in await admin.good("ops", "standing", "pause", "--until", until, "--reason", "a transfer comes")
    shown = (await admin.run("billing", "standing", "-o", "json")).json
    assert shown["standings"][0]["paused_until"] is not None
    assert "good" in await admin.good("ops", "standing", "resume", "--reason", "it came")
    long_ago = await admin.run("ops", "standing", "pause", "--until", "2020-01-31", "--reason", "a transfer comes")
    assert long_ago.code != 0
    assert "90 days" in long_ago.err


async def test_a_budget_is_set_shown_and_taken_away(ada: Terminal, project: tuple[str, UUID]):
    name, _ = project
    assert "No project has a budget" in (await ada.run("billing", "budgets", "list")).err
    missing = await ada.run("billing", "budgets", "show", name)
    assert missing.code == 5
    assert "has no budget" in missing.err
    made = await ada.good("billing", "budgets", "set", name, "--soft", "1000.00", "--hard", "1500.50")
    assert "1500.50" in made
    assert "1000.00" in await ada.good("billing", "budgets", "list")
    assert "0.00 USD" in await ada.good("billing", "budgets", "show", name)
    for bad in (("--soft", "much"), ("--soft", "1.0000001"), ()):
        assert (await ada.run("billing", "budgets", "set", name, *bad)).code != 0
    assert "not above" in (await ada.run("billing", "budgets", "set", name, "--soft", "2", "--hard", "1")).err
    assert "gone" in (await ada.run("billing", "budgets", "delete", name, "--yes")).said
    assert (await ada.run("billing", "budgets", "show", name)).code == 5
