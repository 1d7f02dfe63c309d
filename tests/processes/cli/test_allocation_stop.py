"""Stopping and starting by the command line, with phases shown; the machines are simulated, everything else is real."""

from pathlib import Path
from uuid import UUID

from gpuaas.domains.allocations.models import login_of
from tests.processes.cli.test_allocations import fresh, ground, grounds, sku, tenant, working
from tests.support.ground import Ground
from tests.support.terminal import Terminal

__all__ = ["ground", "grounds", "sku", "tenant", "working"]


def phases(said: str) -> list[str]:
    return [line.split()[2] for line in said.splitlines() if " s  " in line]


async def test_stopped_and_started_it_shows_its_phases_and_its_home_is_as_it_was(
    tenant: Terminal, working: Ground, sku: str
) -> None:
    name = fresh("train")
    await tenant.good("allocations", "create", "--sku", sku, "--name", name, "--wait")
    shown = (await tenant.run("allocations", "show", name, "-o", "json")).json
    home: Path = working.machines[0].home(login_of(UUID(shown["id"])))
    (home / "kept").write_text("mine")

    stopped = await tenant.run("allocations", "stop", name, "--yes", "--wait", "--reason", "lunch")
    assert stopped.code == 0, stopped.said
    assert phases(stopped.err) == ["stop", "suspended", "stopped"]
    assert stopped.out == f"{name} is stopped.\n"
    shown = await tenant.good("allocations", "show", name)
    assert "stopped for" in shown
    assert "ssh " not in shown
    explained = " ".join((await tenant.good("allocations", "explain", name)).split())
    assert f"{name} is stopped; its home and 1 H200 GPU" in explained
    assert "so it is charged as before" in explained
    again = await tenant.run("allocations", "stop", name, "--yes")
    assert "only an active one stops" in again.said

    started = await tenant.run("allocations", "start", name, "--wait")
    assert started.code == 0, started.said
    assert phases(started.err) == ["start", "account", "proven", "started"]
    assert started.out.startswith(f"{name} is active.\nssh ")
    assert (home / "kept").read_text() == "mine"
    await tenant.good("allocations", "release", name, "--yes", "--wait")


async def test_a_start_that_fails_says_why_and_that_it_is_stopped(tenant: Terminal, working: Ground, sku: str) -> None:
    name = fresh("train")
    await tenant.good("allocations", "create", "--sku", sku, "--name", name, "--wait")
    await tenant.good("allocations", "stop", name, "--yes", "--wait")
    host = working.machines[0].host
    host.fail_health(None)
    failed = await tenant.run("allocations", "start", name, "--wait")
    host.clear()
    assert failed.code == 1, failed.said
    assert f"{name} is stopped: " in failed.err
    await tenant.good("allocations", "release", name, "--yes", "--wait")
