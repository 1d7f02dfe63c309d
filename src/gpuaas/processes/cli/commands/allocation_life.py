"""Allocations changed: asked for, renewed, given back; with somebody waiting, phase by phase."""

import sys
from pathlib import Path
from uuid import UUID

import msgspec

from gpuaas.client import allocations
from gpuaas.client.api import decode
from gpuaas.client.call import Call
from gpuaas.client.errors import ApiError
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.allocations import (
    AllocationCreate,
    AllocationDetail,
    AllocationForceRelease,
    AllocationRelease,
    AllocationRenew,
    AllocationState,
    AllocationView,
    IfFull,
)
from gpuaas.processes.cli import names
from gpuaas.processes.cli.commands.keys import read_public_key
from gpuaas.processes.cli.commands.skus import sku_of
from gpuaas.processes.cli.declare import ORG, PROJECT, REASON, YES, Argument, Group, number
from gpuaas.processes.cli.failures import Exit, Stop, UsageError
from gpuaas.processes.cli.naming_allocations import allocation_anywhere, allocation_of
from gpuaas.processes.cli.phases import ENDED, wait_until
from gpuaas.processes.cli.quantities import money
from gpuaas.processes.cli.run import Run
from gpuaas.processes.cli.spans import relative

GROUP = Group("allocations", "What changes allocations; a part of their group.")
S = AllocationState
ALLOCATION = Argument("allocation", help="Its name or id.", completes="allocation")
SKU = Argument("--sku", help="What kind of GPUs, by name or id: gpuaas skus list.", required=True, completes="sku")
GPUS = Argument("--gpus", kind=number, default=1, help="How many GPUs on each node. Default: 1.")
NODES = Argument("--nodes", kind=number, default=1, help="On how many nodes, all or nothing. Default: 1.")
HOURS = Argument("--hours", kind=number, help="How long it lasts unless renewed. Default: as the policy says.")
WAIT = Argument("--wait", flag=True, help="Wait, and show each phase. Default: on a terminal.")
NO_WAIT = Argument("--no-wait", flag=True, help="Do not wait. Default: where no person looks.")
_KEY_NAMES = ("id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub")


def waits_for(run: Run, *, wait: bool, no_wait: bool) -> bool:
    if wait and no_wait:
        raise UsageError("Say --wait or --no-wait, not both.")
    return wait or (not no_wait and run.out.people and not run.out.json)


# ── asking ───────────────────────────────────────────────────────────────────────────────────────


@GROUP.command(
    "create",
    SKU,
    GPUS,
    NODES,
    Argument("--name", help="What you call it. Default: one is made."),
    HOURS,
    Argument("--queue", flag=True, help="Wait in the queue if nothing that fits is free."),
    Argument(
        "--ssh-key",
        many=True,
        help="A public key file to log in with, beside those of your account; may be said again.",
        completes="file",
    ),
    Argument("--tag", many=True, help="A tag of your own; may be said again."),
    WAIT,
    NO_WAIT,
    PROJECT,
    ORG,
    summary="Ask for GPUs: reserved at once, active when they are proven usable.",
    examples=[
        "gpuaas allocations create --sku h200-8 --wait",
        "gpuaas allocations create --sku h200-8 --gpus 8 --nodes 2 --name train --hours 48 --queue",
    ],
)
def allocation_create(
    run: Run,
    *,
    sku: str,
    gpus: int,
    nodes: int,
    name: str | None,
    hours: int | None,
    queue: bool,
    ssh_key: list[str],
    tag: list[str],
    wait: bool,
    no_wait: bool,
    project: str | None,
    org: str | None,
) -> None:
    waits = waits_for(run, wait=wait, no_wait=no_wait)
    keys = [read_public_key(file) for file in ssh_key]
    project_id = names.project(run, project, org)
    wanted = AllocationCreate(
        sku_id=sku_of(run, sku).id,
        gpu_count=gpus,
        node_count=nodes,
        name=name,
        lease_hours=hours,
        if_full=IfFull.QUEUE if queue else IfFull.REFUSE,
        ssh_keys=keys,
        tags=tag,
    )
    call = allocations.allocation_create(project_id, wanted)
    try:
        body = run.api.send_raw(call)
    except ApiError as error:
        if error.code != Code.SSH_KEY_REQUIRED:
            raise
        own = read_public_key(str(_offered_key(run)))
        body = run.api.send_raw(
            allocations.allocation_create(project_id, msgspec.structs.replace(wanted, ssh_keys=[own]))
        )
    made = decode(call, body)
    if not waits:
        _told(run, body, made)
        return
    run.out.note(
        f"{made.name}: {made.gpu_count * made.node_count} × {made.gpu_model}, "
        f"{money(made.currency, made.micros_per_hour)} per hour"
    )
    _until_active(run, project_id, made)


def _offered_key(run: Run) -> Path:
    """The public key of this machine, for somebody whose account has none and who agrees."""
    own = next((path for path in _own_keys(run) if path.is_file()), None)
    if own is None:
        raise Stop(
            "You have no SSH key, so nobody could log in.",
            "Make one with: ssh-keygen -t ed25519, then add it: gpuaas keys add ~/.ssh/id_ed25519.pub",
        )
    if not (sys.stdin.isatty() and run.out.err.isatty()):
        raise Stop(
            "Your account has no SSH key, so nobody could log in.",
            f"Add one: gpuaas keys add {own}, or say for this time: --ssh-key {own}",
        )
    run.out.err.write(f"Your account has no SSH key. Use {own} for this allocation? [Y/n] ")
    run.out.err.flush()
    if sys.stdin.readline().strip().lower() not in {"", "y", "yes"}:
        raise Stop("Nothing was asked for.", f"Add a key first: gpuaas keys add {own}")
    return own


def _own_keys(run: Run) -> list[Path]:
    return [run.environment.home / ".ssh" / name for name in _KEY_NAMES]


def _told(run: Run, body: bytes, made: AllocationView) -> None:
    if run.out.json:
        run.out.raw(body)
        return
    run.out.line(f"{made.name} is {made.state.value}: {made.next_action}.")
    run.out.note(f"Follow it with: gpuaas allocations timeline {made.name} --follow")


def _until_active(run: Run, project_id: UUID, made: AllocationView) -> None:
    try:
        state = wait_until(run, project_id, made.id, frozenset({S.ACTIVE, S.RELEASING, S.RELEASE_FAILED}))
    except KeyboardInterrupt:
        raise Stop(
            f"You stopped watching; {made.name} goes on without you.",
            f"Look: gpuaas allocations show {made.name}. Give it back: gpuaas allocations release {made.name}",
            Exit.INTERRUPTED,
        ) from None
    body, found = look(run, project_id, made.id)
    if state is not S.ACTIVE:
        why = found.failure.reason if found.failure else found.release_reason
        raise Stop(
            f"{made.name} is {found.state.value}: {why or 'no reason was told'}.",
            f"More: gpuaas allocations explain {made.id}",
        )
    if run.out.json:
        run.out.raw(body)
        return
    run.out.note(f"{made.name} is yours until its lease ends {relative(found.expires_at)}. Log in with:")
    for connection in found.connections:
        run.out.line(connection.ssh_command)


def look(run: Run, project_id: UUID, allocation_id: UUID) -> tuple[bytes, AllocationDetail]:
    look = allocations.allocation_get(project_id, allocation_id)
    body = run.api.send_raw(look)
    return body, decode(look, body)


# ── keeping and giving back ──────────────────────────────────────────────────────────────────────


@GROUP.command(
    "renew",
    ALLOCATION,
    HOURS,
    PROJECT,
    ORG,
    summary="Let an allocation last longer, counted from now. It counts as used, too.",
)
def allocation_renew(run: Run, *, allocation: str, hours: int | None, project: str | None, org: str | None) -> None:
    call = allocations.allocation_renew(
        *allocation_of(run, allocation, project, org), AllocationRenew(lease_hours=hours)
    )
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    found = decode(call, body)
    assert found.expires_at is not None  # noqa: S101 # an active one has a lease
    run.out.line(
        f"{found.name} lasts until {found.expires_at.astimezone():%Y-%m-%d %H:%M}, {relative(found.expires_at)}."
    )
    if found.expires_at == found.ends_at:
        run.out.note("That is as long as the policy allows: it cannot be renewed beyond.")


@GROUP.command(
    "release",
    ALLOCATION,
    Argument("--reason", help="Why; for your own records."),
    YES,
    WAIT,
    NO_WAIT,
    PROJECT,
    ORG,
    summary="Give an allocation back: account and data are removed, and it costs no more.",
    examples=["gpuaas allocations release my-gpu --yes --wait"],
)
def allocation_release(
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
        run.confirm(f"Release {allocation}? What is on its disks is erased.", yes=False)
    call = allocations.allocation_release(project_id, allocation_id, AllocationRelease(reason=reason))
    _giving_back(run, project_id, call, waits=waits)


@GROUP.command(
    "force-release",
    Argument("allocation", help="Its id, or the name of a live one."),
    REASON,
    YES,
    WAIT,
    NO_WAIT,
    summary="Release any allocation, also one whose release has failed. For operators.",
    about="Attempts are counted and backed off; after the last one allowed its nodes are quarantined.",
)
def allocation_force_release(run: Run, *, allocation: str, reason: str, yes: bool, wait: bool, no_wait: bool) -> None:
    waits = waits_for(run, wait=wait, no_wait=no_wait)
    found = allocation_anywhere(run, allocation)
    allocation_id = found if isinstance(found, UUID) else found.id
    run.confirm(f"Release {allocation} by force? Its tenant loses it at once.", yes=yes)
    call = allocations.allocation_force_release(allocation_id, AllocationForceRelease(reason=reason))
    _giving_back(run, None, call, waits=waits)


def _giving_back(run: Run, project_id: UUID | None, call: Call[AllocationView], *, waits: bool) -> None:
    body = run.api.send_raw(call)
    found = decode(call, body)
    if not waits or found.state in ENDED:
        if run.out.json:
            run.out.raw(body)
        elif found.state in ENDED:
            run.out.line(f"{found.name} is {found.state.value}; it was never active, and nothing was charged.")
        else:
            run.out.line(f"{found.name} is being given back, and costs no more: {found.next_action}.")
        return
    project_id = project_id or found.project_id
    starts = "releasing" if found.state is S.RELEASING else "stopping"
    try:
        wait_until(run, project_id, found.id, frozenset({S.RELEASE_FAILED}), after=starts)
    except KeyboardInterrupt:
        raise Stop(f"You stopped watching; {found.name} is given back all the same.", "", Exit.INTERRUPTED) from None
    _given_back(run, project_id, found.id)


def _given_back(run: Run, project_id: UUID, allocation_id: UUID) -> None:
    body, found = look(run, project_id, allocation_id)
    if run.out.json:
        run.out.raw(body)
    if found.state is S.RELEASE_FAILED:
        raise Stop(
            f"{found.name} could not be proven gone, so its GPUs are in quarantine. It costs no more.",
            f"More: gpuaas allocations explain {found.id}",
        )
    if run.out.json:
        return
    run.out.line(f"{found.name} is {found.state.value}.")
    for certificate_id in found.certificate_ids:
        run.out.line(f"Certificate of sanitisation: {certificate_id}")
    if found.certificate_ids:
        run.out.note(f"Keep it with: gpuaas certificates download {found.name}")
