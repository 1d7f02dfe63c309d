"""Operations on certificates of sanitisation."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.allocations import CertificateKeys, CertificateOfRelease, CertificateQuery, SignedCertificate
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.permissions import P
from gpuaas.domains.allocations.certificates import service
from gpuaas.domains.allocations.views import certificate_view, signed_view
from gpuaas.infra.http.context import ProjectContext, UserContext
from gpuaas.infra.http.listing import before, page
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.infra.signing import SigningKeys

_ALL = "/projects/{project_id}/certificates"


@operation("GET", _ALL, permission=P.ALLOCATIONS_READ, lane=Lane.DEFAULT, tag="certificates")
async def sanitisation_list(cx: ProjectContext, query: CertificateQuery) -> Page[CertificateOfRelease]:
    """List the project's certificates of sanitisation, newest first."""
    rows = await service.certificate_list(
        cx.tx,
        cx.project_id,
        allocation_id=query.allocation_id,
        before=before(cx, query),
        limit=query.limit + 1,
    )
    return page(cx, query, rows, certificate_view)


@operation(
    "GET",
    _ALL + "/{certificate_id}",
    permission=P.ALLOCATIONS_READ,
    lane=Lane.DEFAULT,
    tag="certificates",
    errors=(Code.CERTIFICATE_OF_RELEASE_MISSING,),
)
async def sanitisation_get(cx: ProjectContext, certificate_id: UUID) -> SignedCertificate:
    """Download a certificate of sanitisation: what was cleaned after a release, how, and what showed it; signed."""
    return signed_view(await service.certificate_get(cx.tx, cx.project_id, certificate_id))


@operation("GET", "/certificate-keys", permission=P.WHOAMI, lane=Lane.DEFAULT, tag="certificates")
async def sanitisation_keys(cx: UserContext) -> CertificateKeys:
    """List the public keys certificates of sanitisation are signed with. Keep them: they verify without us."""
    return CertificateKeys(keys=await service.certificate_keys(cx.tx, cx.parts.get(SigningKeys)))
