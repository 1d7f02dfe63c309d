"""What agents say and hear, over mTLS. A node's identity is its certificate: no message names the node it is from."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import Request, Response
from gpuaas.contracts.tasks.base import Phase, Report
from gpuaas.contracts.tasks.topology import GpuFault

MAX_WAIT_SECONDS = 30
Version = Annotated[str, msgspec.Meta(min_length=1, max_length=60)]
Csr = Annotated[str, msgspec.Meta(min_length=100, max_length=8192, description="PKCS #10, in PEM.")]
Sequence = Annotated[int, msgspec.Meta(ge=1, le=1 << 53)]


class Enrol(Request, frozen=True, kw_only=True):
    """Sent once, on the people's listener, with the single-use token an operator made for the node."""

    token: Annotated[str, msgspec.Meta(min_length=20, max_length=200)]
    csr: Csr
    agent_version: Version


class TaskKeyView(Response, frozen=True, kw_only=True):
    key_id: str
    public_key: str
    """Ed25519, 32 bytes in base64."""


class TrustView(Response, frozen=True, kw_only=True):
    authorities: list[str]
    """Certificates of our certificate authorities, in PEM: both, while one follows the other."""
    task_keys: list[TaskKeyView]
    key_statements: list[str] = msgspec.field(default_factory=list)
    """DSSE envelopes in which a trusted task key names its successor."""


class CertificateView(Response, frozen=True, kw_only=True):
    certificate: str
    """The node's certificate and its issuers', in PEM."""
    serial: str
    not_after: datetime
    renew_after: datetime


class Enrolled(Response, frozen=True, kw_only=True):
    node_id: UUID
    name: str
    agent_url: str
    """Where the agents' listener is: the one host the agent speaks to from now on."""
    certificate: CertificateView
    trust: TrustView


class Renew(Request, frozen=True, kw_only=True):
    csr: Csr


class Claim(Request, frozen=True, kw_only=True):
    next_sequence: Sequence
    """The sequence the agent has not seen yet."""
    wait_seconds: Annotated[int, msgspec.Meta(ge=0, le=MAX_WAIT_SECONDS)] = MAX_WAIT_SECONDS


class Claimed(Response, frozen=True, kw_only=True):
    envelopes: list[str]
    """DSSE envelopes, in order of sequence; empty when nothing came in time."""
    cancelled: list[UUID]
    """Tasks in the agent's hands that are not wanted any more."""


class Heartbeat(Request, frozen=True, kw_only=True):
    boot_id: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    agent_version: Version
    next_sequence: Sequence
    sent_at: datetime
    generation: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
    """The newest desired state the agent has taken over."""
    accounts: Annotated[list[Annotated[str, msgspec.Meta(max_length=32)]], msgspec.Meta(max_length=1000)] = (
        msgspec.field(default_factory=list)
    )
    leases: Annotated[
        dict[UUID, Annotated[list[Annotated[str, msgspec.Meta(max_length=100)]], msgspec.Meta(max_length=64)]],
        msgspec.Meta(max_length=64),
    ] = msgspec.field(default_factory=dict)
    """Which GPUs the agent has leased to which allocation."""
    usage: Annotated[dict[UUID, Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]], msgspec.Meta(max_length=64)] = (
        msgspec.field(default_factory=dict)
    )
    """For how many seconds the GPUs of each lease could be used, by the agent's own count."""
    usage_signature: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """Over `usage`, with the node's key."""


class Desired(Response, frozen=True, kw_only=True):
    generation: int
    cordoned: bool
    drained: bool
    heartbeat_seconds: float
    agent_version: str = ""
    """The version wanted on this node; empty: any."""
    task_keys: list[str] = msgspec.field(default_factory=list)
    """Names of the keys that sign tasks now. An agent that trusts others asks for its trust anew."""


class TellPhases(Request, frozen=True, kw_only=True):
    phases: Annotated[list[Phase], msgspec.Meta(min_length=1, max_length=50)]


class TellResult(Report, Request, frozen=True, kw_only=True):
    """How a task ended."""


class Reported(Response, frozen=True, kw_only=True):
    task_id: UUID
    state: str
    """What the task is now; not what was reported, where it had been given up before."""


class TellFaults(Request, frozen=True, kw_only=True):
    faults: Annotated[list[GpuFault], msgspec.Meta(min_length=1, max_length=64)]


class Sample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    at: datetime
    values: Annotated[dict[Annotated[str, msgspec.Meta(max_length=120)], float], msgspec.Meta(max_length=1000)]


class TellMetrics(Request, frozen=True, kw_only=True):
    batch_id: UUID
    """How the node calls it. Sent again after a lost answer, its samples count once: one for each moment."""
    samples: Annotated[list[Sample], msgspec.Meta(min_length=1, max_length=500)]
