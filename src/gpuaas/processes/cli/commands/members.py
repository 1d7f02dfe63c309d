"""Who is in an organisation or project."""

from uuid import UUID

from gpuaas.client import members
from gpuaas.contracts.http.members import MemberUpdate, MemberView, ProjectMemberSet, RoleBelowOwner
from gpuaas.contracts.permissions import Role
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, ORG, YES, Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("members", "People in an organisation and their roles; with --project, further roles in one project.")
_MEMBER = Argument("member", help="Email address or user id.")
_PROJECT = Argument("--project", help="In this project, by name or id.", completes="project")
_ROLE = Argument("role", choices=tuple(role.value for role in Role), help="owner, admin, member, viewer or billing.")
_COLUMNS: list[Column[MemberView]] = [
    ("email", lambda member: member.email),
    ("name", lambda member: member.name),
    ("role", lambda member: member.role),
    ("since", lambda member: member.joined_at),
    ("user id", lambda member: member.user_id),
]


def member_id(run: Run, org_id: UUID, word: str) -> UUID:
    """A member's user id, from an address or an id."""
    known = names.as_id(word)
    if known is not None:
        return known
    found = names.pick(
        word.lower(),
        run.api.items(members.member_list(org_id, names.LARGEST_PAGE)),
        lambda member: member.email.lower(),
        "member",
        "See them with: gpuaas members list",
    )
    return found.user_id


@GROUP.command("list", ORG, _PROJECT, LIMIT, ALL, summary="List members and their roles.")
def member_list(run: Run, *, org: str | None, project: str | None, limit: int, all: bool) -> None:
    if project is not None:
        call = members.project_member_list(names.project(run, project, org))
        run.table(call, _COLUMNS, limit=limit, all=all, empty="Nobody has a further role in this project.")
    else:
        call = members.member_list(names.org(run, org))
        run.table(call, _COLUMNS, limit=limit, all=all, empty="There are no members.")


@GROUP.command(
    "set",
    _MEMBER,
    _ROLE,
    ORG,
    _PROJECT,
    summary="Change a member's role; with --project, give or change one in the project.",
    about="People join an organisation by invitation: see gpuaas invitations create.",
    examples=[
        "gpuaas members set ada@example.com admin",
        "gpuaas members set ada@example.com viewer --project research",
    ],
)
def member_set(run: Run, *, member: str, role: str, org: str | None, project: str | None) -> None:
    org_id = names.org(run, org)
    user_id = member_id(run, org_id, member)
    if project is None:
        run.show(members.member_update(org_id, user_id, MemberUpdate(role=Role(role))), _COLUMNS)
        return
    if role == Role.OWNER:
        raise UsageError("Owners are of whole organisations.", "In a project: admin, member, viewer or billing.")
    wanted = ProjectMemberSet(role=RoleBelowOwner(role))
    run.show(members.project_member_set(names.project(run, project, org), user_id, wanted), _COLUMNS)


@GROUP.command(
    "remove", _MEMBER, ORG, _PROJECT, YES, summary="Take a member out; with --project, only the role in the project."
)
def member_remove(run: Run, *, member: str, org: str | None, project: str | None, yes: bool) -> None:
    org_id = names.org(run, org)
    user_id = member_id(run, org_id, member)
    if project is None:
        run.confirm(f"Take {member} out of the organisation and all its projects?", yes=yes)
        run.done(members.member_remove(org_id, user_id), f"{member} is no longer a member.")
    else:
        project_id = names.project(run, project, org)
        run.confirm(f"Take away the role of {member} in {project}?", yes=yes)
        run.done(members.project_member_remove(project_id, user_id), f"{member} has no role of its own in {project}.")


@GROUP.command("leave", ORG, YES, summary="Leave an organisation.")
def member_leave(run: Run, *, org: str | None, yes: bool) -> None:
    chosen = names.chosen_org(run, org)
    run.confirm(f"Leave {chosen.name}? Somebody there has to invite you again if you want to come back.", yes=yes)
    run.done(members.member_leave(UUID(chosen.id)), f"You have left {chosen.name}.")
