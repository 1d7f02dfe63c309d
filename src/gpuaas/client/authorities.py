"""Verbs of the nodes' certificate authority: its keys, and the certificates it gave."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.pki import CaRotate, CaView, CertificateListQuery, CertificateRecord, CertificateRevoke


def ca_get() -> Call[CaView]:
    return Call(operation="ca_get", method="GET", path="/platform/ca", answer=CaView)


def ca_rotate(wanted: CaRotate) -> Call[CaView]:
    return Call(operation="ca_rotate", method="POST", path="/platform/ca/rotate", answer=CaView, body=wanted)


def certificate_list(query: CertificateListQuery) -> Call[Page[CertificateRecord]]:
    path = "/platform/certificates"
    return Call(operation="certificate_list", method="GET", path=path, answer=Page[CertificateRecord], query=query)


def certificate_revoke(certificate_id: UUID, wanted: CertificateRevoke) -> Call[CertificateRecord]:
    path = f"/platform/certificates/{certificate_id}/revoke"
    return Call(operation="certificate_revoke", method="POST", path=path, answer=CertificateRecord, body=wanted)
