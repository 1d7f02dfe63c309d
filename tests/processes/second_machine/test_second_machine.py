"""A second machine: enrolled by the very line that was printed, at work while its two-minute certificate is renewed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gpuaas.kit import clock
from tests.processes.second_machine.conftest import Machine
from tests.support.control_plane import ControlPlane, control_plane
from tests.support.servers import DatabaseUrls

RENEWALS = 2
LONGEST_SECONDS = 170
CERTIFICATES = """
SELECT c.id, c.used_at IS NOT NULL AS used, c.not_after - c.not_before AS life
FROM certificates c JOIN nodes n ON n.id = c.node_id WHERE n.name = $1 ORDER BY c.id
"""
TASKS = """
SELECT t.state, t.ended_at - t.created_at AS took FROM tasks t JOIN nodes n ON n.id = t.node_id WHERE n.name = $1
"""
SILENCES = """
SELECT o.name FROM outbox o JOIN nodes n ON n.id = o.subject_id
WHERE n.name = $1 AND o.name IN ('node.unknown', 'node.lost')
"""


async def working(plane: ControlPlane, name: str) -> int:
    """Give it one task after the other until its certificate was renewed often enough; how many."""
    given, until = 0, clock.monotonic() + LONGEST_SECONDS
    while sum(row["used"] for row in await plane.asked(CERTIFICATES, name)) <= RENEWALS:
        assert clock.monotonic() < until, "its certificate was not renewed in time"
        done = await plane.operator.run("nodes", "inspect", name, "--wait")
        assert done.code == 0, done.said
        given += 1
        await asyncio.sleep(0.5)
    return given


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_second_machine_enrols_with_the_printed_line_and_works_while_its_certificate_is_renewed(
    machine: Machine, database: DatabaseUrls, nats_url: str, tmp_path: Path
) -> None:
    where: dict[str, Any] = {"host": machine.ours, "agent_host": machine.ours}
    async with control_plane(database, nats_url, tmp_path, reached_at=machine.ours, **where) as plane:
        why = ("--global", "--reason", "two minutes are enough to see it renewed")
        await plane.operator.good("policy", "set", "pki.node_certificate_seconds", "120", *why)
        name, line = await plane.invited(await plane.sku())
        process = machine.start(f"{line} && exec gpuaas agent launch --driver simulated:8xh200", tmp_path / "there.log")
        try:
            await until_listed(plane, name, tmp_path / "there.log")
            given = await working(plane, name)
            states = [row["state"] for row in await plane.asked(TASKS, name)]
            assert given > 10
            assert set(states) == {"done"}, states
            assert await plane.asked(SILENCES, name) == []
            lives = {row["life"].total_seconds() for row in await plane.asked(CERTIFICATES, name)}
            assert max(lives) <= 151, "two minutes, and a little before"
        finally:
            process.terminate()
            assert process.wait(20) == 0, (tmp_path / "there.log").read_text()[-3000:]


async def until_listed(plane: ControlPlane, name: str, log: Path) -> None:
    until = clock.monotonic() + 30
    while clock.monotonic() < until:
        listed = {node["name"]: node["liveness"] for node in await plane.operator.rows("nodes", "list")}
        if listed[name] == "online":
            return
        await asyncio.sleep(0.5)
    raise AssertionError(f"it does not appear: {log.read_text()[-3000:]}")
