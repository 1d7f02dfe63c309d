"""What commands act on: the API (context), and the organisation and project chosen there."""

from uuid import UUID

import msgspec

from gpuaas.client import identity, private_file
from gpuaas.processes.cli import names
from gpuaas.processes.cli.config import Chosen, Context
from gpuaas.processes.cli.declare import YES, Argument, Group
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("", "")
_NAME = Argument("name", help="The context's name.", completes="context")


class ContextView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    url: str
    current: bool
    logged_in_as: str
    org: Chosen | None
    project: Chosen | None


_COLUMNS: list[Column[ContextView]] = [
    ("", lambda view: "*" if view.current else " "),
    ("name", lambda view: view.name),
    ("url", lambda view: view.url),
    ("logged in as", lambda view: view.logged_in_as),
    ("organisation", lambda view: view.org.name if view.org else ""),
    ("project", lambda view: view.project.name if view.project else ""),
]


@GROUP.command(
    "use",
    Argument("place", help="ORG or ORG/PROJECT, by name; '-' chooses nothing again.", completes="place"),
    summary="Choose the organisation and project that commands act in when they are not told.",
    examples=["gpuaas use acme", "gpuaas use acme/research"],
)
def use(run: Run, *, place: str) -> None:
    name, context = run.place
    org, project = (None, None) if place == "-" else _chosen(run, place)
    run.config_file.put(name, msgspec.structs.replace(context, org=org, project=project))
    if run.out.json:
        run.out.raw(msgspec.json.encode({"context": name, "org": org, "project": project}))
    elif org is None:
        run.out.line("Nothing is chosen now: say --org and --project.")
    else:
        run.out.line(f"Commands now act in {org.name}{'/' + project.name if project else ''} at {context.url}.")


def _chosen(run: Run, place: str) -> tuple[Chosen, Chosen | None]:
    org_word, slash, project_word = place.partition("/")
    found = run.api.send(identity.org_get(UUID(names.chosen_org(run, org_word).id)))
    org = Chosen(str(found.id), found.name)
    if not slash or not project_word:
        return org, None
    project = run.api.send(identity.project_get(UUID(names.chosen_project(run, project_word, org.id).id)))
    return org, Chosen(str(project.id), project.name)


CONTEXT = GROUP.group("context", "The APIs you use. Each context has a URL, a session, and a chosen organisation.")


@CONTEXT.command("list", summary="List saved contexts.")
def context_list(run: Run) -> None:
    config = run.config_file.read()
    views = [_view(run, name, context, name == config.current) for name, context in sorted(config.contexts.items())]
    if run.out.json:
        run.out.raw(msgspec.json.encode({"items": views}))
    else:
        run.out.table(_COLUMNS, views, empty="No context yet. Run: gpuaas login --url https://gpu.example.com")


@CONTEXT.command("show", summary="Show what commands act on now.")
def context_show(run: Run) -> None:
    name, context = run.place
    view = _view(run, name, context, run.config_file.read().current == name)
    if run.out.json:
        run.out.raw(msgspec.json.encode(view))
    else:
        run.out.fields([(title, value(view)) for title, value in _COLUMNS[1:]])


@CONTEXT.command("switch", _NAME, summary="Make another saved context the current one.")
def context_switch(run: Run, *, name: str) -> None:
    with private_file.locked(run.config_file.path):
        config = run.config_file.read()
        run.config_file.write(config.with_context(name, config.named(name), current=True))
    run.out.line(f"Commands now talk to {config.named(name).url}.")


@CONTEXT.command("delete", _NAME, YES, summary="Forget a context and its session on this machine.")
def context_delete(run: Run, *, name: str, yes: bool) -> None:
    run.config_file.read().named(name)
    run.confirm(f"Forget {name}? Its session stays valid at the issuer; gpuaas logout ends it there, too.", yes=yes)
    run.config_file.session(name).delete()
    with private_file.locked(run.config_file.path):
        run.config_file.write(run.config_file.read().without(name))
    run.out.line(f"{name} is forgotten.")


def _view(run: Run, name: str, context: Context, current: bool) -> ContextView:
    session = run.config_file.session(name).read()
    return ContextView(
        name=name,
        url=context.url,
        current=current,
        logged_in_as="" if session is None else session.email or session.name or "yes",
        org=context.org,
        project=context.project,
    )
