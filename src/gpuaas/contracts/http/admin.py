"""Operating an installation over HTTP: what must hold, what is behind, how a program fares."""

from datetime import datetime
from typing import Annotated

import msgspec

from gpuaas.contracts.http.base import Query, Response

Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class VerifyQuery(Query, frozen=True, kw_only=True):
    chain_from: Annotated[
        int, msgspec.Meta(ge=1, le=2**53, description="Check the audit chain from this link on; 1 is all of it.")
    ] = 1


class Finding(Response, frozen=True, kw_only=True):
    """A row that should not be."""

    subject: str
    problem: str


class InvariantView(Response, frozen=True, kw_only=True):
    name: str
    statement: str
    holds: bool
    count: Annotated[int, msgspec.Meta(description="How many rows break it; counting stops at 10,000.")]
    first: list[Finding]


class ChainView(Response, frozen=True, kw_only=True):
    """How much of the audit chain was recomputed."""

    from_link: int
    links: int
    checkpoints: int


class Verification(Response, frozen=True, kw_only=True):
    holds: bool
    at: Instant
    seconds: float
    invariants: list[InvariantView]
    chain: ChainView


class HealthCheck(Response, frozen=True, kw_only=True):
    name: str
    ok: bool
    reason: Annotated[
        str, msgspec.Meta(description="What is wrong and what to look at, or what to know though all is well.")
    ]


class ConsumerLag(Response, frozen=True, kw_only=True):
    consumer: str
    behind_seconds: float


class HealthFigures(Response, frozen=True, kw_only=True):
    database_ms: float
    migration: str
    migration_head: str
    outbox_unpublished: int
    outbox_oldest_seconds: float
    consumers: list[ConsumerLag]
    dead_letters_open: int
    dead_letters_replaying: int
    emails_queued: int
    emails_oldest_queued_seconds: float
    emails_not_configured: int
    emails_failed: Annotated[int, msgspec.Meta(description="In the last day.")]
    audit_unsealed: int
    audit_oldest_unsealed_seconds: float
    audit_sealed_through: int
    audit_checkpoint_through: int
    audit_checkpoint_age_seconds: float | None
    policy_revision: int
    policy_age_seconds: float


class Health(Response, frozen=True, kw_only=True):
    ok: bool
    checks: list[HealthCheck]
    figures: HealthFigures


class PoolUse(Response, frozen=True, kw_only=True):
    in_use: int
    size: int


class ProcessStats(Response, frozen=True, kw_only=True):
    """How the program that answers fares. Replicas answer each for itself."""

    version: str
    python: str
    pid: int
    host: str
    started_at: Instant
    uptime_seconds: float
    cpu_seconds: float
    resident_bytes: int
    open_files: int
    threads: int
    tasks: int
    requests_in_flight: int
    read_pool: PoolUse
    write_pool: PoolUse
    policy_revision: int
    policy_age_seconds: float
