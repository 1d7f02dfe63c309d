"""Every task a node can be asked to do."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.tasks.base import Task, TaskResult
from gpuaas.contracts.tasks.topology import Count, HostHealth, Strict, Topology

Login = Annotated[str, msgspec.Meta(min_length=1, max_length=32, pattern=r"^g[a-z0-9]{1,31}\Z")]
"""An account's name on the host: derived from ids, never chosen by a user."""
Serial = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
HostKey = Annotated[str, msgspec.Meta(max_length=8192, pattern=r"^[A-Za-z0-9@.-]+ [A-Za-z0-9+/=]+( [ -~]*)?\Z")]
HostName = Annotated[str, msgspec.Meta(max_length=253, pattern=r"^([A-Za-z0-9:][A-Za-z0-9:.-]*)?\Z")]
"""A name or address, or nothing. It becomes part of a command its user types: nothing a shell or ssh would act on."""
Digest = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
SshKey = Annotated[str, msgspec.Meta(min_length=20, max_length=8192, pattern=r"^[A-Za-z0-9@.-]+ [A-Za-z0-9+/=]+\Z")]


class InspectResult(TaskResult, frozen=True, kw_only=True):
    topology: Topology


class Inspect(Task, frozen=True, kw_only=True):
    """Look at the hardware."""

    TYPE = "node.inspect"
    RESULT = InspectResult
    DEADLINE_SECONDS = 60


class HealthResult(TaskResult, frozen=True, kw_only=True):
    health: HostHealth


class HealthCheck(Task, frozen=True, kw_only=True):
    """Prove GPUs usable; with `load`, under load. No serials: all of them."""

    TYPE = "node.health"
    RESULT = HealthResult
    DEADLINE_SECONDS = 300
    serials: Annotated[list[Serial], msgspec.Meta(max_length=64)] = msgspec.field(default_factory=list)
    load: bool = False


class AccountResult(TaskResult, frozen=True, kw_only=True):
    uid: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    home: Annotated[str, msgspec.Meta(max_length=1000)]
    host_keys: Annotated[list[HostKey], msgspec.Meta(max_length=16)] = msgspec.field(default_factory=list)
    """The host's SSH keys, so that a user can know whom he speaks to."""
    address: HostName = ""
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 22


class UserProvision(Task, frozen=True, kw_only=True):
    """Make an account that can log in with these keys; making it again changes it to be so."""

    TYPE = "user.provision"
    RESULT = AccountResult
    DEADLINE_SECONDS = 60
    login: Login
    ssh_keys: Annotated[list[SshKey], msgspec.Meta(max_length=50)]
    gpus: Annotated[list[Serial], msgspec.Meta(max_length=64)]


class LeaseResult(TaskResult, frozen=True, kw_only=True):
    serials: Annotated[list[Serial], msgspec.Meta(max_length=64)]
    """Leased to this allocation now."""


class SlotLease(Task, frozen=True, kw_only=True):
    """Note on the host that these GPUs are this allocation's. Refused while one is another's; noting it again changes
    nothing."""

    TYPE = "slot.lease"
    RESULT = LeaseResult
    DEADLINE_SECONDS = 30
    allocation_id: UUID
    serials: Annotated[list[Serial], msgspec.Meta(min_length=1, max_length=64)]


class UnleaseResult(TaskResult, frozen=True, kw_only=True):
    existed: bool


class SlotUnlease(Task, frozen=True, kw_only=True):
    """The GPUs are this allocation's no more."""

    TYPE = "slot.unlease"
    RESULT = UnleaseResult
    DEADLINE_SECONDS = 30
    allocation_id: UUID


Found = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class Leftovers(Strict, frozen=True, kw_only=True):
    """What was found of an account after it was taken away; all zero, or it is not gone."""

    processes: Found
    files: Found
    timers: Found
    ipc: Found
    sessions: Found


class RevokeResult(TaskResult, frozen=True, kw_only=True):
    existed: bool
    ended_processes: Count
    left: Leftovers


class UserRevoke(Task, frozen=True, kw_only=True):
    """Take an account away with everything of its uid, and prove it."""

    TYPE = "user.revoke"
    RESULT = RevokeResult
    DEADLINE_SECONDS = 120
    login: Login


class Running(Strict, frozen=True, kw_only=True):
    """What was found to run, or to be about to run, for an account after it was suspended; all zero, or it is not."""

    processes: Found
    timers: Found
    ipc: Found
    sessions: Found


class SuspendResult(TaskResult, frozen=True, kw_only=True):
    existed: bool
    ended_processes: Count
    left: Running


class UserSuspend(Task, frozen=True, kw_only=True):
    """Close an account and end all that runs for it, and prove it; its home and its files stay as they are. Making the
    account again opens it."""

    TYPE = "user.suspend"
    RESULT = SuspendResult
    DEADLINE_SECONDS = 120
    login: Login


class DrainResult(TaskResult, frozen=True, kw_only=True):
    accounts: list[str]
    """Accounts of ours still on the host."""


class Drain(Task, frozen=True, kw_only=True):
    """Let no new login in; with `until_empty`, wait until all have left."""

    TYPE = "node.drain"
    RESULT = DrainResult
    DEADLINE_SECONDS = 600
    drained: bool = True
    until_empty: bool = False


class CleaningMethod(StrEnum):
    HOME_REMOVED = "home_removed"
    MEMORY_CLEARED = "memory_cleared"
    RESET = "reset"
    DISK_ERASED = "disk_erased"
    REIMAGED = "reimaged"


class Cleaning(Strict, frozen=True, kw_only=True):
    """One thing that was cleaned, how, and what shows it."""

    target: Annotated[str, msgspec.Meta(max_length=120)]
    method: CleaningMethod
    clean: bool
    evidence: Annotated[str, msgspec.Meta(max_length=500)]
    at: datetime


class SanitiseResult(TaskResult, frozen=True, kw_only=True):
    cleanings: Annotated[list[Cleaning], msgspec.Meta(max_length=400)]


class Sanitise(Task, frozen=True, kw_only=True):
    """Clean GPUs, and what their tenant could write to, for the next one; with evidence for each."""

    TYPE = "node.sanitise"
    RESULT = SanitiseResult
    DEADLINE_SECONDS = 600
    serials: Annotated[list[Serial], msgspec.Meta(max_length=64)]
    reimage: bool = False


class UpdateResult(TaskResult, frozen=True, kw_only=True):
    version: str
    rolled_back: bool
    reason: str = ""


class AgentUpdate(Task, frozen=True, kw_only=True):
    """Become this version: fetched from the control plane, checked against the digest, staged, and rolled back if it is
    not healthy in time."""

    TYPE = "agent.update"
    RESULT = UpdateResult
    DEADLINE_SECONDS = 300
    version: Annotated[str, msgspec.Meta(max_length=60)]
    digest: Digest
    artifact_id: UUID
    healthy_within_seconds: Annotated[int, msgspec.Meta(ge=5, le=300)] = 60
