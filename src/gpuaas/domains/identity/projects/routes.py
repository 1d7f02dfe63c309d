"""Operations on projects."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Done, Page, PageQuery
from gpuaas.contracts.http.orgs import ProjectCreate, ProjectUpdate, ProjectView
from gpuaas.contracts.permissions import P
from gpuaas.domains.identity.projects import service
from gpuaas.domains.identity.projects.models import Project
from gpuaas.infra.http.context import OrgContext, ProjectContext
from gpuaas.infra.http.listing import after, page
from gpuaas.infra.http.operation import Lane, operation


def view(project: Project) -> ProjectView:
    return ProjectView(
        id=project.id,
        org_id=project.org_id,
        name=project.name,
        title=project.title,
        cost_centre=project.cost_centre,
        created_at=project.created_at,
    )


@operation("GET", "/orgs/{org_id}/projects", permission=P.PROJECTS_READ, lane=Lane.DEFAULT, tag="projects")
async def project_list(cx: OrgContext, query: PageQuery) -> Page[ProjectView]:
    """List an organisation's projects."""
    rows = await service.list_of_org(cx.tx, cx.org_id, after=after(cx, query), limit=query.limit + 1)
    return page(cx, query, rows, view)


@operation(
    "POST",
    "/orgs/{org_id}/projects",
    permission=P.PROJECTS_CREATE,
    lane=Lane.DEFAULT,
    audit="project.create",
    status=201,
    tag="projects",
    errors=(Code.PROJECT_NAME_TAKEN, Code.PROJECT_LIMIT),
)
async def project_create(cx: OrgContext, wanted: ProjectCreate) -> ProjectView:
    """Create a project.

    Its name is unique among the organisation's projects."""
    max_projects = cx.policy.number("identity.projects_per_org_max", cx.org_id)
    return view(await service.project_create(cx.tx, cx.org_id, wanted, max_projects=max_projects))


@operation("GET", "/projects/{project_id}", permission=P.PROJECTS_READ, lane=Lane.DEFAULT, tag="projects")
async def project_get(cx: ProjectContext) -> ProjectView:
    """Show a project."""
    return view(await service.project_get(cx.tx, cx.project_id))


@operation(
    "PATCH",
    "/projects/{project_id}",
    permission=P.PROJECTS_UPDATE,
    lane=Lane.DEFAULT,
    audit="project.update",
    tag="projects",
    errors=(Code.PROJECT_NAME_TAKEN,),
)
async def project_update(cx: ProjectContext, wanted: ProjectUpdate) -> ProjectView:
    """Change a project's name, title or cost centre."""
    return view(await service.project_update(cx.tx, cx.project_id, wanted))


@operation(
    "DELETE",
    "/projects/{project_id}",
    permission=P.PROJECTS_DELETE,
    lane=Lane.DEFAULT,
    audit="project.delete",
    tag="projects",
    errors=(Code.PROJECT_IN_USE,),
)
async def project_delete(cx: ProjectContext) -> Done:
    """Delete a project.

    Its members and service accounts lose their roles in it at once; its name can be used again. One with live
    allocations stays: release them first."""
    await service.project_delete(cx.tx, cx.project_id)
    return Done()
