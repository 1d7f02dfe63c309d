"""Policy's verbs. A place is nowhere (what holds for all), an organisation, or a project."""

from uuid import UUID

from gpuaas.client.call import Call, segment
from gpuaas.contracts.http.base import Page, PageQuery
from gpuaas.contracts.http.policy import (
    OrgRehearsalQuery,
    PlaceQuery,
    PolicyExplanation,
    PolicyKeyView,
    PolicyRehearsal,
    PolicySet,
    PolicyUnset,
    PolicyView,
    RehearsalQuery,
)

FIRST_PAGE = PageQuery()


def policy_key_list(query: PageQuery = FIRST_PAGE) -> Call[Page[PolicyKeyView]]:
    return Call(operation="policy_key_list", method="GET", path="/policy-keys", answer=Page[PolicyKeyView], query=query)


def policy_list(query: PageQuery = FIRST_PAGE) -> Call[Page[PolicyView]]:
    return Call(operation="policy_list", method="GET", path="/policy", answer=Page[PolicyView], query=query)


def policy_get(name: str) -> Call[PolicyView]:
    return Call(operation="policy_get", method="GET", path=f"/policy/{segment(name)}", answer=PolicyView)


def policy_set(name: str, wanted: PolicySet) -> Call[PolicyView]:
    return Call(operation="policy_set", method="PUT", path=f"/policy/{segment(name)}", answer=PolicyView, body=wanted)


def policy_unset(name: str, query: PolicyUnset) -> Call[PolicyView]:
    return Call(
        operation="policy_unset", method="DELETE", path=f"/policy/{segment(name)}", answer=PolicyView, query=query
    )


def policy_explain(name: str, query: PlaceQuery) -> Call[PolicyExplanation]:
    path = f"/policy/{segment(name)}/explanation"
    return Call(operation="policy_explain", method="GET", path=path, answer=PolicyExplanation, query=query)


def policy_rehearse(name: str, query: RehearsalQuery) -> Call[PolicyRehearsal]:
    path = f"/policy/{segment(name)}/rehearsal"
    return Call(operation="policy_rehearse", method="GET", path=path, answer=PolicyRehearsal, query=query)


def policy_org_list(org_id: UUID, query: PageQuery = FIRST_PAGE) -> Call[Page[PolicyView]]:
    path = f"/orgs/{org_id}/policy"
    return Call(operation="policy_org_list", method="GET", path=path, answer=Page[PolicyView], query=query)


def policy_org_get(org_id: UUID, name: str) -> Call[PolicyView]:
    path = f"/orgs/{org_id}/policy/{segment(name)}"
    return Call(operation="policy_org_get", method="GET", path=path, answer=PolicyView)


def policy_org_set(org_id: UUID, name: str, wanted: PolicySet) -> Call[PolicyView]:
    path = f"/orgs/{org_id}/policy/{segment(name)}"
    return Call(operation="policy_org_set", method="PUT", path=path, answer=PolicyView, body=wanted)


def policy_org_unset(org_id: UUID, name: str, query: PolicyUnset) -> Call[PolicyView]:
    path = f"/orgs/{org_id}/policy/{segment(name)}"
    return Call(operation="policy_org_unset", method="DELETE", path=path, answer=PolicyView, query=query)


def policy_org_explain(org_id: UUID, name: str) -> Call[PolicyExplanation]:
    path = f"/orgs/{org_id}/policy/{segment(name)}/explanation"
    return Call(operation="policy_org_explain", method="GET", path=path, answer=PolicyExplanation)


def policy_org_rehearse(org_id: UUID, name: str, query: OrgRehearsalQuery) -> Call[PolicyRehearsal]:
    path = f"/orgs/{org_id}/policy/{segment(name)}/rehearsal"
    return Call(operation="policy_org_rehearse", method="GET", path=path, answer=PolicyRehearsal, query=query)


def policy_project_list(project_id: UUID, query: PageQuery = FIRST_PAGE) -> Call[Page[PolicyView]]:
    path = f"/projects/{project_id}/policy"
    return Call(operation="policy_project_list", method="GET", path=path, answer=Page[PolicyView], query=query)


def policy_project_get(project_id: UUID, name: str) -> Call[PolicyView]:
    path = f"/projects/{project_id}/policy/{segment(name)}"
    return Call(operation="policy_project_get", method="GET", path=path, answer=PolicyView)


def policy_project_set(project_id: UUID, name: str, wanted: PolicySet) -> Call[PolicyView]:
    path = f"/projects/{project_id}/policy/{segment(name)}"
    return Call(operation="policy_project_set", method="PUT", path=path, answer=PolicyView, body=wanted)


def policy_project_unset(project_id: UUID, name: str, query: PolicyUnset) -> Call[PolicyView]:
    path = f"/projects/{project_id}/policy/{segment(name)}"
    return Call(operation="policy_project_unset", method="DELETE", path=path, answer=PolicyView, query=query)


def policy_project_explain(project_id: UUID, name: str) -> Call[PolicyExplanation]:
    path = f"/projects/{project_id}/policy/{segment(name)}/explanation"
    return Call(operation="policy_project_explain", method="GET", path=path, answer=PolicyExplanation)
