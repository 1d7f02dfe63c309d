"""Rows of authorities, certificates and tokens, and what follows from their times."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.http.pki import AuthorityKind, AuthorityState, CertificateState
from gpuaas.kit.ids import NodeId


class AuthorityRow(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    kind: AuthorityKind
    parent_id: UUID | None
    subject: str
    certificate: bytes
    fingerprint: bytes
    key_sealed: bytes | None
    not_before: datetime
    not_after: datetime
    created_at: datetime
    retired_at: datetime | None
    distrusted_at: datetime | None


class AuthorityStanding(AuthorityRow, frozen=True, kw_only=True):
    ended: bool
    live_certificates: int
    """Signed by it or below it, neither expired nor revoked."""

    @property
    def trusted(self) -> bool:
        return self.standing in (AuthorityState.SIGNING, AuthorityState.RETIRED)

    @property
    def standing(self) -> AuthorityState:
        if self.distrusted_at is not None:
            return AuthorityState.DISTRUSTED
        if self.ended:
            return AuthorityState.GONE
        if self.retired_at is None and self.kind is not AuthorityKind.CROSS:
            return AuthorityState.SIGNING
        return AuthorityState.RETIRED if self.live_certificates else AuthorityState.GONE


class CertificateRow(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    kind: str
    node_id: NodeId | None
    authority_id: UUID
    serial: str
    fingerprint: bytes
    public_key_hash: bytes
    certificate: bytes
    not_before: datetime
    not_after: datetime
    issued_at: datetime
    used_at: datetime | None
    superseded_at: datetime | None
    revoked_at: datetime | None
    revoked_reason: str

    def state_at(self, instant: datetime) -> CertificateState:
        if self.revoked_at is not None:
            return CertificateState.REVOKED
        if self.not_after <= instant:
            return CertificateState.EXPIRED
        return CertificateState.LIVE if self.superseded_at is None else CertificateState.SUPERSEDED

    @property
    def renew_after(self) -> datetime:
        """Half of its life is over then."""
        return self.issued_at + (self.not_after - self.issued_at) / 2


class NewCertificate(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    kind: str
    node_id: UUID | None
    authority_id: UUID
    serial: str
    fingerprint: bytes
    public_key_hash: bytes
    certificate: bytes
    not_before: datetime
    not_after: datetime


class BootstrapToken(msgspec.Struct, frozen=True, kw_only=True):
    token: str
    """Shown once; only its hash is kept."""
    expires_at: datetime


class Issued(msgspec.Struct, frozen=True, kw_only=True):
    certificate: CertificateRow
    chain: str
    """The certificate and its issuers', in PEM: what its holder shows."""
