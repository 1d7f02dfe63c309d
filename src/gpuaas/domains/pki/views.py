"""Rows as they are shown."""

from gpuaas.contracts.http.agent import CertificateView
from gpuaas.contracts.http.pki import AuthorityView, CertificateRecord
from gpuaas.domains.pki.models import AuthorityStanding, CertificateRow, Issued
from gpuaas.kit import clock


def certificate_view(issued: Issued) -> CertificateView:
    """As its holder gets it."""
    row = issued.certificate
    return CertificateView(
        certificate=issued.chain, serial=row.serial, not_after=row.not_after, renew_after=row.renew_after
    )


def certificate_record(row: CertificateRow) -> CertificateRecord:
    return CertificateRecord(
        id=row.id,
        node_id=row.node_id,
        authority_id=row.authority_id,
        serial=row.serial,
        fingerprint=row.fingerprint.hex(),
        state=row.state_at(clock.now()),
        issued_at=row.issued_at,
        not_before=row.not_before,
        not_after=row.not_after,
        used_at=row.used_at,
        superseded_at=row.superseded_at,
        revoked_at=row.revoked_at,
        revoked_reason=row.revoked_reason,
    )


def authority_view(row: AuthorityStanding, certificate: str) -> AuthorityView:
    return AuthorityView(
        id=row.id,
        kind=row.kind,
        subject=row.subject,
        state=row.standing,
        fingerprint=row.fingerprint.hex(),
        live_certificates=row.live_certificates,
        not_before=row.not_before,
        not_after=row.not_after,
        certificate=certificate,
    )
