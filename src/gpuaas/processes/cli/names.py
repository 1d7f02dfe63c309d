"""Names in place of ids. What looks like an id is one; anything else is looked up among what the user can see."""

from collections.abc import Callable, Iterable
from typing import TypeVar
from uuid import UUID

from gpuaas.client import identity, platform
from gpuaas.client.errors import ApiError
from gpuaas.contracts.http.base import PageQuery
from gpuaas.contracts.http.orgs import OrgQuery, OrgView
from gpuaas.kit.ids import ProjectId
from gpuaas.kit.paging import MAX_LIMIT
from gpuaas.processes.cli.config import Chosen
from gpuaas.processes.cli.failures import Exit, Stop, UsageError
from gpuaas.processes.cli.run import Run

T = TypeVar("T")
LARGEST_PAGE = PageQuery(limit=MAX_LIMIT)


def as_id(text: str) -> UUID | None:
    try:
        return UUID(text) if len(text) in {32, 36} else None
    except ValueError:
        return None


def pick(word: str, found: Iterable[T], name: Callable[[T], str], kind: str, advice: str) -> T:
    """The one of that name. Two of one name are never guessed between."""
    matches = [item for item in found if name(item) == word]
    if not matches:
        raise Stop(f"There is no {kind} {word!r} that you can see.", advice, Exit.MISSING)
    if len(matches) > 1:
        raise UsageError(f"There are {len(matches)} of the name {word!r}.", "Give the id instead.")
    return matches[0]


def org(run: Run, given: str | None) -> UUID:
    """The organisation meant: by --org, or chosen before."""
    return UUID(chosen_org(run, given).id)


def chosen_org(run: Run, given: str | None) -> Chosen:
    if given is None:
        if run.context.org is not None:
            return run.context.org
        return _only_org(run)
    known = as_id(given)
    if known is not None:
        return Chosen(str(known), given)
    saved = run.context.org
    if saved is not None and saved.name == given:
        return saved
    try:
        mine = [*run.api.items(identity.org_list(LARGEST_PAGE))]
        found = pick(
            given,
            mine if any(item.name == given for item in mine) else _anybodys(run, given),
            lambda item: item.name,
            "organisation",
            "See yours with: gpuaas orgs list. Operators see all with: gpuaas ops orgs list",
        )
    except ApiError as error:
        if error.status == 403:
            raise UsageError("This credential cannot look organisations up by name.", "Give the id instead.") from error
        raise
    return Chosen(str(found.id), found.name)


def _anybodys(run: Run, name: str) -> list[OrgView]:
    """Operators name organisations they are not in; nobody else sees them."""
    try:
        return run.api.send(platform.org_list_all(OrgQuery(name=name))).items
    except ApiError as error:
        if error.status in {403, 422}:
            return []
        raise


def _only_org(run: Run) -> Chosen:
    """Who is in one organisation need not name it."""
    try:
        found = run.api.send(identity.org_list(PageQuery(limit=2))).items
    except ApiError as error:
        if error.status != 403:
            raise
        found = []
    if len(found) == 1:
        return Chosen(str(found[0].id), found[0].name)
    raise UsageError("Which organisation?", "Say --org NAME, or choose one with: gpuaas use NAME")


def project(run: Run, given: str | None, org_given: str | None = None) -> UUID:
    """The project meant: by --project (a name, an id, or ORG/NAME), or chosen before."""
    if given is None:
        if run.context.project is None or org_given is not None:
            return _only_project(run, org_given)
        return UUID(run.context.project.id)
    return UUID(chosen_project(run, given, org_given).id)


def _only_project(run: Run, org_given: str | None) -> UUID:
    """Who has one project need not name it."""
    try:
        found = run.api.send(identity.project_list(org(run, org_given), PageQuery(limit=2))).items
    except ApiError as error:
        if error.status != 403:
            raise
        found = []
    if len(found) == 1:
        return found[0].id
    raise UsageError("Which project?", "Say --project NAME, or choose one with: gpuaas use ORG/PROJECT")


def project_id(run: Run, given: str, org_given: str | None) -> ProjectId:
    return ProjectId(project(run, given, org_given))


def chosen_project(run: Run, given: str, org_given: str | None) -> Chosen:
    owner, slash, name = given.partition("/")
    if slash:
        org_given, given = owner, name
    known = as_id(given)
    if known is not None:
        return Chosen(str(known), given)
    org_id = org(run, org_given)
    saved = run.context.project
    if saved is not None and saved.name == given and run.context.org and run.context.org.id == str(org_id):
        return saved
    found = pick(
        given,
        run.api.items(identity.project_list(org_id, LARGEST_PAGE)),
        lambda item: item.name,
        "project",
        "See them with: gpuaas projects list",
    )
    return Chosen(str(found.id), found.name)
