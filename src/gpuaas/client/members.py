"""Verbs on members and invitations."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.base import Done, Page, PageQuery
from gpuaas.contracts.http.members import (
    InvitationAccept,
    InvitationAccepted,
    InvitationCreate,
    InvitationCreated,
    InvitationView,
    MemberUpdate,
    MemberView,
    ProjectMemberSet,
)

FIRST_PAGE = PageQuery()


def member_list(org_id: UUID, query: PageQuery = FIRST_PAGE) -> Call[Page[MemberView]]:
    path = f"/orgs/{org_id}/members"
    return Call(operation="member_list", method="GET", path=path, answer=Page[MemberView], query=query)


def member_update(org_id: UUID, user_id: UUID, wanted: MemberUpdate) -> Call[MemberView]:
    path = f"/orgs/{org_id}/members/{user_id}"
    return Call(operation="member_update", method="PATCH", path=path, answer=MemberView, body=wanted)


def member_remove(org_id: UUID, user_id: UUID) -> Call[Done]:
    path = f"/orgs/{org_id}/members/{user_id}"
    return Call(operation="member_remove", method="DELETE", path=path, answer=Done)


def member_leave(org_id: UUID) -> Call[Done]:
    return Call(operation="member_leave", method="POST", path=f"/orgs/{org_id}/leave", answer=Done)


def project_member_list(project_id: UUID, query: PageQuery = FIRST_PAGE) -> Call[Page[MemberView]]:
    path = f"/projects/{project_id}/members"
    return Call(operation="project_member_list", method="GET", path=path, answer=Page[MemberView], query=query)


def project_member_set(project_id: UUID, user_id: UUID, wanted: ProjectMemberSet) -> Call[MemberView]:
    path = f"/projects/{project_id}/members/{user_id}"
    return Call(operation="project_member_set", method="PUT", path=path, answer=MemberView, body=wanted)


def project_member_remove(project_id: UUID, user_id: UUID) -> Call[Done]:
    path = f"/projects/{project_id}/members/{user_id}"
    return Call(operation="project_member_remove", method="DELETE", path=path, answer=Done)


def invitation_list(org_id: UUID, query: PageQuery = FIRST_PAGE) -> Call[Page[InvitationView]]:
    path = f"/orgs/{org_id}/invitations"
    return Call(operation="invitation_list", method="GET", path=path, answer=Page[InvitationView], query=query)


def invitation_create(org_id: UUID, wanted: InvitationCreate) -> Call[InvitationCreated]:
    path = f"/orgs/{org_id}/invitations"
    return Call(operation="invitation_create", method="POST", path=path, answer=InvitationCreated, body=wanted)


def invitation_revoke(org_id: UUID, invitation_id: UUID) -> Call[Done]:
    path = f"/orgs/{org_id}/invitations/{invitation_id}"
    return Call(operation="invitation_revoke", method="DELETE", path=path, answer=Done)


def invitation_accept(wanted: InvitationAccept) -> Call[InvitationAccepted]:
    path = "/invitations/accept"
    return Call(operation="invitation_accept", method="POST", path=path, answer=InvitationAccepted, body=wanted)
