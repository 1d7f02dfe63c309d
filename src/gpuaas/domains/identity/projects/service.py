"""The verbs of projects. A deleted project keeps its row; its name can be used again."""

from msgspec import UNSET

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.platform import ProjectCreated, ProjectDeleted, ProjectUpdated
from gpuaas.contracts.http.orgs import ProjectCreate, ProjectUpdate
from gpuaas.domains.identity.orgs import service as orgs
from gpuaas.domains.identity.projects import store
from gpuaas.domains.identity.projects.models import Project
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import OrgId, ProjectId, new_id

AT_ONCE = 100
"""More than will ever be created in one organisation at the same moment."""

list_of_org = store.list_of_org
project_get = store.get
project_lock = store.lock


async def project_create(tx: Tx, org_id: OrgId, wanted: ProjectCreate, *, max_projects: int) -> Project:
    """Far below the limit nobody waits for anybody; near it they take turns, so that it holds exactly."""
    project_id = ProjectId(new_id())
    project = await store.insert(tx, project_id, org_id, wanted, below=max_projects - AT_ONCE)
    if project is None:
        await orgs.lock(tx, org_id)
        project = await store.insert(tx, project_id, org_id, wanted, below=max_projects)
    if project is None:
        raise Conflict(
            Code.PROJECT_LIMIT,
            f"The organisation has {max_projects} projects, as many as allowed. Delete one first.",
        )
    tx.emit(ProjectCreated(project_id=project.id, name=project.name), subject_id=project.id)
    return project


async def project_update(tx: Tx, project_id: ProjectId, wanted: ProjectUpdate) -> Project:
    name = None if wanted.name is UNSET else wanted.name
    title = None if wanted.title is UNSET else wanted.title
    cost_centre = None if wanted.cost_centre is UNSET else wanted.cost_centre or ""
    project = await store.update(tx, project_id, name=name, title=title, cost_centre=cost_centre)
    tx.emit(ProjectUpdated(project_id=project_id), subject_id=project_id)
    return project


async def project_delete(tx: Tx, project_id: ProjectId) -> None:
    await store.delete(tx, project_id)
    tx.emit(ProjectDeleted(project_id=project_id), subject_id=project_id)
