"""Operations on the nodes' certificate authority: an operator's, and the one by which a node renews its certificate."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.agent import CertificateView, Renew
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.pki import CaRotate, CaView, CertificateListQuery, CertificateRecord, CertificateRevoke
from gpuaas.contracts.permissions import P
from gpuaas.domains.pki import service
from gpuaas.domains.pki.site import Pki
from gpuaas.domains.pki.views import authority_view, certificate_record, certificate_view
from gpuaas.infra.http.context import AgentContext, PlatformContext
from gpuaas.infra.http.listing import after, page
from gpuaas.infra.http.operation import Lane, Wire, operation
from gpuaas.infra.postgres.tx import Tx


@operation("GET", "/platform/ca", permission=P.PLATFORM_READ, lane=Lane.ADMIN)
async def ca_get(cx: PlatformContext) -> CaView:
    """The authorities that sign nodes' certificates, newest first.

    There is none before the first node was enrolled."""
    return await _view(cx.tx, cx.parts.get(Pki))


@operation("POST", "/platform/ca/rotate", permission=P.PLATFORM_MANAGE, lane=Lane.ADMIN, audit="ca.rotate")
async def ca_rotate(cx: PlatformContext, wanted: CaRotate) -> CaView:
    """Make a new authority, which signs from now on; the old one stays trusted while something it signed lives.

    With `distrust_old` nothing the old ones signed counts any more, and every node has to be enrolled again."""
    pki = cx.parts.get(Pki)
    await service.ca_rotate(cx.tx, pki, wanted.kind, distrust_old=wanted.distrust_old)
    return await _view(cx.tx, pki)


@operation("GET", "/platform/certificates", permission=P.NODES_READ, lane=Lane.ADMIN)
async def certificate_list(cx: PlatformContext, query: CertificateListQuery) -> Page[CertificateRecord]:
    """Every certificate that was issued, or those of one node."""
    rows = await service.certificate_list(cx.tx, query.node_id, after=after(cx, query), limit=query.limit + 1)
    return page(cx, query, rows, certificate_record)


@operation(
    "POST",
    "/platform/certificates/{certificate_id}/revoke",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="certificate.revoke",
    errors=(Code.CERTIFICATE_MISSING, Code.CERTIFICATE_ENDED),
)
async def certificate_revoke(cx: PlatformContext, certificate_id: UUID, wanted: CertificateRevoke) -> CertificateRecord:
    """Revoke a node's certificate: within a second nobody is let in with it.

    The node is then without an identity until it is enrolled again."""
    return certificate_record(await service.certificate_revoke(cx.tx, certificate_id, wanted.reason))


@operation(
    "POST",
    "/certificate",
    lane=Lane.DEFAULT,
    wire=Wire.AGENT,
    status=201,
    errors=(Code.CSR_REFUSED, Code.CERTIFICATE_LIMIT),
)
async def certificate_renew(cx: AgentContext, wanted: Renew) -> CertificateView:
    """A new certificate for the node that asks. The old one counts until the new one was shown."""
    seconds = cx.policy.number("pki.node_certificate_seconds")
    shown = cx.actor.credential_id or ""
    renewed = await service.renew(cx.tx, cx.parts.get(Pki), cx.node_id, wanted.csr, shown=shown, seconds=seconds)
    return certificate_view(renewed)


async def _view(tx: Tx, pki: Pki) -> CaView:
    found = await service.authority_list(tx)
    return CaView(
        trust_domain=pki.trust_domain, authorities=[authority_view(row, service.pem(row.certificate)) for row in found]
    )
