"""The audit log over HTTP: entries, filters, the seal of an entry, signed heads of the chain."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import PageQuery, Query, Response

_Action = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=100,
        pattern=r"^[a-z][a-z0-9_.]*$(?!\n)",
        description="Exactly this action.",
        examples=["project.create"],
    ),
]
Instant = Annotated[datetime, msgspec.Meta(tz=True)]
_From = Annotated[datetime, msgspec.Meta(tz=True, description="At this instant or later.")]
_To = Annotated[datetime, msgspec.Meta(tz=True, description="Before this instant.")]


class AuditFilter(Query, frozen=True, kw_only=True):
    """Which entries; all that is given must hold."""

    actor_id: UUID | None = None
    action: _Action | None = None
    subject_id: UUID | None = None
    project_id: UUID | None = None
    from_at: _From | None = msgspec.field(name="from", default=None)
    to_at: _To | None = msgspec.field(name="to", default=None)


class PlatformAuditFilter(AuditFilter, frozen=True, kw_only=True):
    org_id: UUID | None = None


class AuditQuery(PageQuery, frozen=True, kw_only=True):
    """The same, in pages, newest first. (A struct has one base, so the fields are written again.)"""

    actor_id: UUID | None = None
    action: _Action | None = None
    subject_id: UUID | None = None
    project_id: UUID | None = None
    from_at: _From | None = msgspec.field(name="from", default=None)
    to_at: _To | None = msgspec.field(name="to", default=None)


class PlatformAuditQuery(AuditQuery, frozen=True, kw_only=True):
    org_id: UUID | None = None


class AuditEntryView(Response, frozen=True, kw_only=True):
    id: UUID
    at: Instant
    action: str
    operation: str
    actor_kind: str
    actor_id: UUID | None
    actor_name: str
    org_id: UUID | None
    project_id: UUID | None
    subject_id: UUID | None
    correlation_id: str
    client_ip: str
    details: Annotated[msgspec.Raw, msgspec.Meta(description="What was asked, without secrets.")]


class SealView(Response, frozen=True, kw_only=True):
    """The entry's link in the hash chain."""

    seq: int
    version: int
    prev_hash: Annotated[str, msgspec.Meta(description="In hexadecimal.")]
    hash: str


class AuditEntryDetail(AuditEntryView, frozen=True, kw_only=True):
    seal: Annotated[SealView, msgspec.Meta(description="Null until the sealer came by, within seconds.")] | None


class CheckpointView(Response, frozen=True, kw_only=True):
    """A signed head of the chain. Kept elsewhere, it proves later that nothing before it was changed."""

    seq: int
    hash: str
    at: Instant
    key_id: str
    signature: Annotated[str, msgspec.Meta(description="Ed25519 over the bytes docs name, in hexadecimal.")]
    public_key: Annotated[str, msgspec.Meta(description="The key's public part as a JSON Web Key.")] | None
