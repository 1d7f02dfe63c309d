"""Allocations stopped and started again by their people; with somebody waiting, phase by phase."""

import sys
from uuid import UUID

from gpuaas.client import allocations
from gpuaas.client.api import decode
from gpuaas.client.call import Call
from gpuaas.contracts.http.allocations import AllocationState, AllocationStop, AllocationView
from gpuaas.processes.cli.commands.allocation_life import ALLOCATION, NO_WAIT, WAIT, look, waits_for
from gpuaas.processes.cli.declare import ORG, PROJECT, YES, Argument, Group
from gpuaas.processes.cli.failures import Exit, Stop
from gpuaas.processes.cli.naming_allocations import allocation_of
from gpuaas.processes.cli.phases import wait_until
from gpuaas.processes.cli.quantities import money
from gpuaas.processes.cli.run import Run

GROUP = Group("allocations", "What stops and starts allocations; a part of their group.")
S = AllocationState
_GONE = frozenset({S.RELEASING, S.RELEASE_FAILED})


@GROUP.command(
    "stop",
    ALLOCATION,
    Argument("--reason", help="Why; for your own records."),
    YES,
    WAIT,
    NO_WAIT,
    PROJECT,
    ORG,
    summary="Stop an allocation: nobody can log in and nothing runs; its home and GPUs are kept, and charged.",
    about="What runs is ended, and crontabs are removed. To pay no more, release it.",
    examples=["gpuaas allocations stop my-gpu --yes --wait"],
)
def allocation_stop(
    run: Run,
    *,
    allocation: str,
    reason: str | None,
    yes: bool,
    wait: bool,
    no_wait: bool,
    project: str | None,
    org: str | None,
) -> None:
    waits = waits_for(run, wait=wait, no_wait=no_wait)
    project_id, allocation_id = allocation_of(run, allocation, project, org)
    if not yes and sys.stdin.isatty():
        cost = look(run, project_id, allocation_id)[1]
        each = money(cost.currency, cost.micros_per_hour)
        run.confirm(
            f"Stop {allocation}? All that runs is ended. Its GPUs are kept for you, so it still costs {each} per hour.",
            yes=False,
        )
    call = allocations.allocation_stop(project_id, allocation_id, AllocationStop(reason=reason))
    _follow(run, project_id, call, waits=waits, to=S.STOPPED, after="stop")


@GROUP.command(
    "start",
    ALLOCATION,
    WAIT,
    NO_WAIT,
    PROJECT,
    ORG,
    summary="Start a stopped allocation again: active when its GPUs are proven usable, with its home as it was.",
    examples=["gpuaas allocations start my-gpu --wait"],
)
def allocation_start(
    run: Run, *, allocation: str, wait: bool, no_wait: bool, project: str | None, org: str | None
) -> None:
    waits = waits_for(run, wait=wait, no_wait=no_wait)
    project_id, allocation_id = allocation_of(run, allocation, project, org)
    call = allocations.allocation_start(project_id, allocation_id)
    _follow(run, project_id, call, waits=waits, to=S.ACTIVE, after="start")


def _follow(
    run: Run, project_id: UUID, call: Call[AllocationView], *, waits: bool, to: AllocationState, after: str
) -> None:
    body = run.api.send_raw(call)
    found = decode(call, body)
    if not waits:
        if run.out.json:
            run.out.raw(body)
        else:
            run.out.line(f"{found.name} is {found.state.value}: {found.next_action}.")
        return
    try:
        wait_until(run, project_id, found.id, frozenset({S.ACTIVE, S.STOPPED}) | _GONE, after=after)
    except KeyboardInterrupt:
        raise Stop(f"You stopped watching; {found.name} goes on without you.", "", Exit.INTERRUPTED) from None
    body, now = look(run, project_id, found.id)
    if run.out.json:
        run.out.raw(body)
    if now.state is not to or now.failure is not None:
        why = now.failure.reason if now.failure else now.release_reason
        raise Stop(
            f"{now.name} is {now.state.value}: {why or 'no reason was told'}.",
            f"More: gpuaas allocations explain {now.id}",
        )
    if run.out.json:
        return
    run.out.line(f"{now.name} is {now.state.value}.")
    for connection in now.connections:
        run.out.line(connection.ssh_command)
