"""Policy's operations. The platform uses those of an organisation or project, too: it may set what they may not."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Page, PageQuery
from gpuaas.contracts.http.policy import (
    OrgRehearsalQuery,
    PlaceQuery,
    PolicyExplanation,
    PolicyKeyView,
    PolicyName,
    PolicyRehearsal,
    PolicySet,
    PolicyUnset,
    PolicyView,
    RehearsalQuery,
)
from gpuaas.contracts.permissions import P
from gpuaas.contracts.policy_keys import POLICY_KEYS
from gpuaas.domains.policy import service
from gpuaas.domains.policy.layers import Layer
from gpuaas.domains.policy.models import Place
from gpuaas.domains.policy.views import explanation, key_view, policy_view, rehearsal_view
from gpuaas.infra.http.context import OrgContext, PlatformContext, ProjectContext, UserContext
from gpuaas.infra.http.operation import Lane, operation

EVERYWHERE = Place()
_READ = (Code.POLICY_KEY_MISSING, Code.ORG_MISSING, Code.PROJECT_MISSING)
_UNSET = (
    *_READ,
    Code.POLICY_GUARDRAIL,
    Code.POLICY_PLATFORM_ONLY,
    Code.POLICY_LEVEL_REFUSED,
    Code.POLICY_OVERRIDE_MISSING,
)
_SET = (*_UNSET[:-1], Code.POLICY_VALUE_REFUSED)
_REHEARSE = (*_UNSET, Code.POLICY_VALUE_REFUSED)


@operation("GET", "/policy-keys", permission=P.WHOAMI, lane=Lane.DEFAULT)
async def policy_key_list(cx: UserContext, query: PageQuery) -> Page[PolicyKeyView]:
    """List the definitions of all policies: type, bounds, default, which way is stricter, where it can be set."""
    names = _page(cx, query)
    return Page(items=[key_view(POLICY_KEYS[name]) for name in names], next_cursor=_next(cx, names, query))


# everywhere --------------------------------------------------------------------------------------------------------
@operation("GET", "/policy", permission=P.PLATFORM_READ, lane=Lane.DEFAULT)
async def policy_list(cx: PlatformContext, query: PageQuery) -> Page[PolicyView]:
    """List what holds where neither an organisation nor a project has set something."""
    return await _effective(cx, EVERYWHERE, query)


@operation("GET", "/policy/{name}", permission=P.PLATFORM_READ, lane=Lane.DEFAULT, errors=_READ)
async def policy_get(cx: PlatformContext, name: PolicyName) -> PolicyView:
    """Read the value of a policy that holds for all."""
    return _view(EVERYWHERE, name, await service.policy_layers(cx.tx, EVERYWHERE, name))


@operation("PUT", "/policy/{name}", permission=P.PLATFORM_MANAGE, lane=Lane.ADMIN, audit="policy.set", errors=_SET)
async def policy_set(cx: PlatformContext, name: PolicyName, wanted: PolicySet) -> PolicyView:
    """Set a policy for all, as a guardrail if nobody below may be weaker."""
    return await _set(cx, EVERYWHERE, name, wanted)


@operation(
    "DELETE", "/policy/{name}", permission=P.PLATFORM_MANAGE, lane=Lane.ADMIN, audit="policy.unset", errors=_UNSET
)
async def policy_unset(cx: PlatformContext, name: PolicyName, query: PolicyUnset) -> PolicyView:
    """Take away what is set for all: the default holds again."""
    return await _unset(cx, EVERYWHERE, name)


@operation("GET", "/policy/{name}/explanation", permission=P.PLATFORM_READ, lane=Lane.DEFAULT, errors=_READ)
async def policy_explain(cx: PlatformContext, name: PolicyName, query: PlaceQuery) -> PolicyExplanation:
    """Explain a policy's value anywhere: every level, who set it, when and why, and which of them decides."""
    place = Place(query.org_id, query.project_id)
    layers = await service.policy_layers(cx.tx, place, name)
    return explanation(POLICY_KEYS[name], layers, place.level, names_staff=True)


@operation("GET", "/policy/{name}/rehearsal", permission=P.PLATFORM_READ, lane=Lane.DEFAULT, errors=_REHEARSE)
async def policy_rehearse(cx: PlatformContext, name: PolicyName, query: RehearsalQuery) -> PolicyRehearsal:
    """Say whom a change would touch, from what to what, without making it."""
    return await _rehearse(cx, Place(query.org_id, query.project_id), name, query)


# an organisation -----------------------------------------------------------------------------------------------------
@operation("GET", "/orgs/{org_id}/policy", permission=P.POLICY_READ, lane=Lane.DEFAULT)
async def policy_org_list(cx: OrgContext, query: PageQuery) -> Page[PolicyView]:
    """List the policies that hold in the organisation, each with where its value comes from."""
    return await _effective(cx, Place(cx.org_id), query)


@operation("GET", "/orgs/{org_id}/policy/{name}", permission=P.POLICY_READ, lane=Lane.DEFAULT, errors=_READ)
async def policy_org_get(cx: OrgContext, name: PolicyName) -> PolicyView:
    """Read the value of a policy in the organisation."""
    place = Place(cx.org_id)
    return _view(place, name, await service.policy_layers(cx.tx, place, name))


@operation(
    "PUT", "/orgs/{org_id}/policy/{name}", permission=P.POLICY_MANAGE, lane=Lane.ADMIN, audit="policy.set", errors=_SET
)
async def policy_org_set(cx: OrgContext, name: PolicyName, wanted: PolicySet) -> PolicyView:
    """Set a policy for the organisation, as a guardrail if none of its projects may be weaker."""
    return await _set(cx, Place(cx.org_id), name, wanted)


@operation(
    "DELETE",
    "/orgs/{org_id}/policy/{name}",
    permission=P.POLICY_MANAGE,
    lane=Lane.ADMIN,
    audit="policy.unset",
    errors=_UNSET,
)
async def policy_org_unset(cx: OrgContext, name: PolicyName, query: PolicyUnset) -> PolicyView:
    """Take away what the organisation has set: what is above holds again."""
    return await _unset(cx, Place(cx.org_id), name)


@operation("GET", "/orgs/{org_id}/policy/{name}/explanation", permission=P.POLICY_READ, lane=Lane.DEFAULT, errors=_READ)
async def policy_org_explain(cx: OrgContext, name: PolicyName) -> PolicyExplanation:
    """Explain a policy's value in the organisation."""
    return await _explain(cx, Place(cx.org_id), name)


@operation(
    "GET", "/orgs/{org_id}/policy/{name}/rehearsal", permission=P.POLICY_READ, lane=Lane.DEFAULT, errors=_REHEARSE
)
async def policy_org_rehearse(cx: OrgContext, name: PolicyName, query: OrgRehearsalQuery) -> PolicyRehearsal:
    """Say which of the organisation's projects a change would touch, without making it."""
    return await _rehearse(cx, Place(cx.org_id, query.project_id), name, query)


# a project -----------------------------------------------------------------------------------------------------------
@operation("GET", "/projects/{project_id}/policy", permission=P.POLICY_READ, lane=Lane.DEFAULT)
async def policy_project_list(cx: ProjectContext, query: PageQuery) -> Page[PolicyView]:
    """List the policies that hold in the project, each with where its value comes from."""
    return await _effective(cx, Place(cx.org_id, cx.project_id), query)


@operation("GET", "/projects/{project_id}/policy/{name}", permission=P.POLICY_READ, lane=Lane.DEFAULT, errors=_READ)
async def policy_project_get(cx: ProjectContext, name: PolicyName) -> PolicyView:
    """Read the value of a policy in the project."""
    place = Place(cx.org_id, cx.project_id)
    return _view(place, name, await service.policy_layers(cx.tx, place, name))


@operation(
    "PUT",
    "/projects/{project_id}/policy/{name}",
    permission=P.POLICY_MANAGE,
    lane=Lane.ADMIN,
    audit="policy.set",
    errors=_SET,
)
async def policy_project_set(cx: ProjectContext, name: PolicyName, wanted: PolicySet) -> PolicyView:
    """Set a policy for the project."""
    return await _set(cx, Place(cx.org_id, cx.project_id), name, wanted)


@operation(
    "DELETE",
    "/projects/{project_id}/policy/{name}",
    permission=P.POLICY_MANAGE,
    lane=Lane.ADMIN,
    audit="policy.unset",
    errors=_UNSET,
)
async def policy_project_unset(cx: ProjectContext, name: PolicyName, query: PolicyUnset) -> PolicyView:
    """Take away what the project has set: what is above holds again."""
    return await _unset(cx, Place(cx.org_id, cx.project_id), name)


@operation(
    "GET", "/projects/{project_id}/policy/{name}/explanation", permission=P.POLICY_READ, lane=Lane.DEFAULT, errors=_READ
)
async def policy_project_explain(cx: ProjectContext, name: PolicyName) -> PolicyExplanation:
    """Explain a policy's value in the project."""
    return await _explain(cx, Place(cx.org_id, cx.project_id), name)


def _page(cx: UserContext, query: PageQuery) -> list[str]:
    after = cx.cursor_position(query.cursor)
    return [name for name in sorted(POLICY_KEYS) if after is None or name > after[0]][: query.limit]


def _next(cx: UserContext, names: list[str], query: PageQuery) -> str | None:
    return cx.next_cursor(names[-1]) if len(names) == query.limit else None


def _view(place: Place, name: str, layers: list[Layer]) -> PolicyView:
    return policy_view(POLICY_KEYS[name], layers, place.level)


async def _effective(cx: UserContext, place: Place, query: PageQuery) -> Page[PolicyView]:
    layers, names = await service.policy_all_layers(cx.tx, place), _page(cx, query)
    return Page(items=[_view(place, name, layers[name]) for name in names], next_cursor=_next(cx, names, query))


async def _set(cx: UserContext, place: Place, name: str, wanted: PolicySet) -> PolicyView:
    change = await service.policy_set(cx.tx, cx.actor, place, name, wanted)
    cx.tx.after_commit(cx.policy.changed)
    cx.audit_details = {"before": change.before}
    return _view(place, name, change.layers)


async def _unset(cx: UserContext, place: Place, name: str) -> PolicyView:
    change = await service.policy_unset(cx.tx, cx.actor, place, name)
    cx.tx.after_commit(cx.policy.changed)
    cx.audit_details = {"before": change.before}
    return _view(place, name, change.layers)


async def _explain(cx: UserContext, place: Place, name: str) -> PolicyExplanation:
    layers = await service.policy_layers(cx.tx, place, name)
    return explanation(POLICY_KEYS[name], layers, place.level, names_staff=bool(cx.actor.platform_roles))


async def _rehearse(cx: UserContext, place: Place, name: str, query: OrgRehearsalQuery) -> PolicyRehearsal:
    found = await service.policy_rehearse(
        cx.tx,
        cx.actor,
        place,
        name,
        value=query.value,
        guardrail=query.guardrail,
        after=cx.cursor_position(query.cursor),
        limit=query.limit,
    )
    cursor = cx.next_cursor(*found.next_position) if found.next_position else None
    return rehearsal_view(POLICY_KEYS[name], found, cursor)
