"""Operations on organisations."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Done, Page, PageQuery
from gpuaas.contracts.http.orgs import OrgCreate, OrgQuery, OrgUpdate, OrgView
from gpuaas.contracts.permissions import P
from gpuaas.domains.identity.orgs import service
from gpuaas.domains.identity.orgs.models import Org
from gpuaas.infra.http.context import OrgContext, PlatformContext, UserContext
from gpuaas.infra.http.listing import after, page
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import UserId


def view(org: Org) -> OrgView:
    return OrgView(
        id=org.id,
        name=org.name,
        title=org.title,
        personal=org.personal_of is not None,
        created_at=org.created_at,
        role=org.role,
    )


@operation("GET", "/orgs", permission=P.SELF, lane=Lane.DEFAULT, tag="orgs")
async def org_list(cx: UserContext, query: PageQuery) -> Page[OrgView]:
    """List the organisations you are a member of."""
    rows = await service.list_of_user(cx.tx, UserId(cx.user_id), after=after(cx, query), limit=query.limit + 1)
    return page(cx, query, rows, view)


@operation("GET", "/platform/orgs", permission=P.USERS_READ, lane=Lane.ADMIN, tag="orgs")
async def org_list_all(cx: PlatformContext, query: OrgQuery) -> Page[OrgView]:
    """List all organisations, also personal ones; with `name`, the one of that name."""
    rows = await service.list_all(cx.tx, name=query.name, after=after(cx, query), limit=query.limit + 1)
    return page(cx, query, rows, view)


@operation(
    "POST",
    "/orgs",
    permission=P.SELF,
    lane=Lane.DEFAULT,
    audit="org.create",
    status=201,
    tag="orgs",
    errors=(Code.ORG_NAME_TAKEN, Code.ORG_LIMIT),
)
async def org_create(cx: UserContext, wanted: OrgCreate) -> OrgView:
    """Create an organisation.

    You become its owner. Names are unique across the installation; a deleted organisation's name can be used again."""
    max_orgs = cx.policy.number("identity.orgs_per_user_max")
    return view(await service.org_create(cx.tx, UserId(cx.user_id), wanted, max_orgs=max_orgs))


@operation("GET", "/orgs/{org_id}", permission=P.ORGS_READ, lane=Lane.DEFAULT, tag="orgs")
async def org_get(cx: OrgContext) -> OrgView:
    """Show an organisation and your role in it."""
    return view(await service.org_get(cx.tx, cx.actor, cx.org_id))


@operation(
    "PATCH",
    "/orgs/{org_id}",
    permission=P.ORGS_UPDATE,
    lane=Lane.DEFAULT,
    audit="org.update",
    tag="orgs",
    errors=(Code.ORG_NAME_TAKEN,),
)
async def org_update(cx: OrgContext, wanted: OrgUpdate) -> OrgView:
    """Change an organisation's name or title."""
    return view(await service.org_update(cx.tx, cx.actor, cx.org_id, wanted))


@operation(
    "DELETE",
    "/orgs/{org_id}",
    permission=P.ORGS_DELETE,
    lane=Lane.DEFAULT,
    audit="org.delete",
    tag="orgs",
    errors=(Code.ORG_IS_PERSONAL, Code.ORG_NOT_EMPTY, Code.ORG_HAS_MONEY),
)
async def org_delete(cx: OrgContext) -> Done:
    """Delete an organisation that has no projects left, and whose balance is zero.

    Its members, invitations and service accounts lose access at once; the audit log stays. A personal organisation
    cannot be deleted."""
    await service.org_delete(cx.tx, cx.org_id)
    return Done()
