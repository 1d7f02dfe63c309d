"""Commands on projects: where work happens and is paid from."""

import msgspec

from gpuaas.client import identity
from gpuaas.contracts.http.orgs import ProjectCreate, ProjectUpdate, ProjectView
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, ORG, YES, Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("projects", "Projects of an organisation: where work happens and is paid from.")
_PROJECT = Argument("project", help="Its name, its id, or ORG/NAME.", completes="project")
_OPTIONAL = Argument("project", help="Its name or id. Default: the chosen one.", optional=True, completes="project")
COLUMNS: list[Column[ProjectView]] = [
    ("name", lambda project: project.name),
    ("title", lambda project: project.title),
    ("cost centre", lambda project: project.cost_centre),
    ("created", lambda project: project.created_at),
    ("id", lambda project: project.id),
]


@GROUP.command("list", ORG, LIMIT, ALL, summary="List an organisation's projects.")
def project_list(run: Run, *, org: str | None, limit: int, all: bool) -> None:
    chosen = names.chosen_org(run, org)
    call = identity.project_list(names.org(run, chosen.id))
    run.table(
        call,
        COLUMNS,
        limit=limit,
        all=all,
        empty=f"{chosen.name} has no projects. Create one with: gpuaas projects create NAME",
    )


@GROUP.command("show", _OPTIONAL, ORG, summary="Show a project.")
def project_get(run: Run, *, project: str | None, org: str | None) -> None:
    run.show(identity.project_get(names.project(run, project, org)), COLUMNS)


@GROUP.command(
    "create",
    Argument("name", help="Lower-case letters, digits and dashes; unique in the organisation."),
    Argument("--title", help="What people read. Default: the name."),
    Argument("--cost-centre", help="What your own accounting calls it: on statements and invoices."),
    ORG,
    summary="Create a project.",
    examples=["gpuaas projects create research --org acme", "gpuaas use acme/research"],
)
def project_create(run: Run, *, name: str, title: str | None, cost_centre: str | None, org: str | None) -> None:
    wanted = ProjectCreate(name=name, title=title, cost_centre=cost_centre)
    run.show(identity.project_create(names.org(run, org), wanted), COLUMNS)


@GROUP.command(
    "update",
    _PROJECT,
    Argument("--name", help="A new name."),
    Argument("--title", help="A new title."),
    Argument("--cost-centre", help="What your own accounting calls it; empty: it has none any more."),
    ORG,
    summary="Change a project's name, title or cost centre.",
)
def project_update(
    run: Run, *, project: str, name: str | None, title: str | None, cost_centre: str | None, org: str | None
) -> None:
    if name is None and title is None and cost_centre is None:
        raise UsageError("Nothing to change.", "Say --name, --title or --cost-centre.")
    wanted = ProjectUpdate(
        name=msgspec.UNSET if name is None else name,
        title=msgspec.UNSET if title is None else title,
        cost_centre=msgspec.UNSET if cost_centre is None else cost_centre or None,
    )
    run.show(identity.project_update(names.project(run, project, org), wanted), COLUMNS)


@GROUP.command("delete", _PROJECT, ORG, YES, summary="Delete a project.")
def project_delete(run: Run, *, project: str, org: str | None, yes: bool) -> None:
    project_id = names.project(run, project, org)
    run.confirm(f"Delete the project {project}? Its members and service accounts lose their roles in it.", yes=yes)
    run.done(identity.project_delete(project_id), f"Project {project} is deleted.")
