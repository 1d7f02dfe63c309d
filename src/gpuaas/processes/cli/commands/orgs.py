"""Organisations."""

import msgspec

from gpuaas.client import identity
from gpuaas.contracts.http.orgs import OrgCreate, OrgUpdate, OrgView
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, YES, Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("orgs", "Organisations own projects; people and service accounts hold roles in them.")
ORG = Argument("org", help="Its name or id.", completes="org")
_OPTIONAL = Argument("org", help="Its name or id. Default: the chosen one.", optional=True, completes="org")
COLUMNS: list[Column[OrgView]] = [
    ("name", lambda org: org.name),
    ("title", lambda org: org.title),
    ("role", lambda org: org.role),
    ("personal", lambda org: org.personal),
    ("created", lambda org: org.created_at),
    ("id", lambda org: org.id),
]


@GROUP.command("list", LIMIT, ALL, summary="List the organisations you are in.")
def org_list(run: Run, *, limit: int, all: bool) -> None:
    run.table(identity.org_list(), COLUMNS, limit=limit, all=all, empty="You are in no organisation.")


@GROUP.command("show", _OPTIONAL, summary="Show an organisation and your role in it.")
def org_get(run: Run, *, org: str | None) -> None:
    run.show(identity.org_get(names.org(run, org)), COLUMNS)


@GROUP.command(
    "create",
    Argument("name", help="Lower-case letters, digits and dashes; unique in the installation."),
    Argument("--title", help="What people read. Default: the name."),
    summary="Create an organisation; you become its owner.",
    examples=["gpuaas orgs create acme --title 'Acme Research'", "gpuaas use acme"],
)
def org_create(run: Run, *, name: str, title: str | None) -> None:
    run.show(identity.org_create(OrgCreate(name=name, title=title)), COLUMNS)


@GROUP.command(
    "update",
    ORG,
    Argument("--name", help="A new name."),
    Argument("--title", help="A new title."),
    summary="Change an organisation's name or title.",
)
def org_update(run: Run, *, org: str, name: str | None, title: str | None) -> None:
    if name is None and title is None:
        raise UsageError("Nothing to change.", "Say --name or --title.")
    wanted = OrgUpdate(name=msgspec.UNSET if name is None else name, title=msgspec.UNSET if title is None else title)
    run.show(identity.org_update(names.org(run, org), wanted), COLUMNS)


@GROUP.command("delete", ORG, YES, summary="Delete an organisation that has no projects left.")
def org_delete(run: Run, *, org: str, yes: bool) -> None:
    org_id = names.org(run, org)
    run.confirm(f"Delete the organisation {org}? Its members and service accounts lose access at once.", yes=yes)
    run.done(identity.org_delete(org_id), f"Organisation {org} is deleted.")
