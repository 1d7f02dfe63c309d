"""The certificate authority of nodes, as operators see it."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import PageQuery, Reason, Request, Response

Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class AuthorityKind(StrEnum):
    ROOT = "root"
    INTERMEDIATE = "intermediate"
    CROSS = "cross"
    """A new root's key, certified by the root before it."""


class AuthorityState(StrEnum):
    SIGNING = "signing"
    RETIRED = "retired"
    """Signs nothing new; trusted while a certificate it signed lives."""
    GONE = "gone"
    """Expired, or nothing it signed lives any more."""
    DISTRUSTED = "distrusted"


class AuthorityView(Response, frozen=True, kw_only=True):
    id: UUID
    kind: AuthorityKind
    subject: str
    state: AuthorityState
    fingerprint: str
    """SHA-256 of the certificate."""
    live_certificates: int
    not_before: Instant
    not_after: Instant
    certificate: str
    """PEM."""


class CaView(Response, frozen=True, kw_only=True):
    trust_domain: str
    authorities: list[AuthorityView]


class RotatedKind(StrEnum):
    INTERMEDIATE = "intermediate"
    ROOT = "root"


class CaRotate(Request, frozen=True, kw_only=True):
    reason: Reason
    kind: RotatedKind = RotatedKind.INTERMEDIATE
    """With a new root comes a new intermediate."""
    distrust_old: bool = False
    """Nothing the old ones signed counts any more: every node has to be enrolled again."""


class CertificateState(StrEnum):
    LIVE = "live"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    REVOKED = "revoked"


class CertificateRecord(Response, frozen=True, kw_only=True):
    id: UUID
    node_id: UUID | None
    """Empty: of the agents' listener itself."""
    authority_id: UUID
    serial: str
    fingerprint: str
    state: CertificateState
    issued_at: Instant
    not_before: Instant
    not_after: Instant
    used_at: Instant | None
    """When it was shown first."""
    superseded_at: Instant | None
    revoked_at: Instant | None
    revoked_reason: str


class CertificateListQuery(PageQuery, frozen=True, kw_only=True):
    node_id: UUID | None = None


class CertificateRevoke(Request, frozen=True, kw_only=True):
    reason: Reason
