"""Identity's verbs: oneself and one's keys, organisations, projects. Each is named for its operation."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.base import Done, Page, PageQuery
from gpuaas.contracts.http.issuer import PasswordChange
from gpuaas.contracts.http.orgs import (
    OrgCreate,
    OrgUpdate,
    OrgView,
    ProjectCreate,
    ProjectUpdate,
    ProjectView,
)
from gpuaas.contracts.http.sessions import (
    AuthConfig,
    LoginFinish,
    LoginStart,
    LoginStarted,
    SessionEnd,
    SessionEnded,
    SessionRefresh,
    SessionTokens,
    SessionView,
)
from gpuaas.contracts.http.ssh_keys import SshKeyAdd, SshKeyView
from gpuaas.contracts.http.users import MeUpdate, MeView, UserView

FIRST_PAGE = PageQuery()


def auth_config_get() -> Call[AuthConfig]:
    return Call(operation="auth_config_get", method="GET", path="/auth/config", answer=AuthConfig)


def login_start(wanted: LoginStart) -> Call[LoginStarted]:
    return Call(operation="login_start", method="POST", path="/auth/login", answer=LoginStarted, body=wanted)


def login_finish(wanted: LoginFinish) -> Call[SessionTokens]:
    path = "/auth/login/finish"
    return Call(operation="login_finish", method="POST", path=path, answer=SessionTokens, body=wanted)


def session_refresh(wanted: SessionRefresh) -> Call[SessionTokens]:
    return Call(operation="session_refresh", method="POST", path="/auth/refresh", answer=SessionTokens, body=wanted)


def session_get() -> Call[SessionView]:
    return Call(operation="session_get", method="GET", path="/auth/session", answer=SessionView)


def session_end(wanted: SessionEnd) -> Call[SessionEnded]:
    return Call(operation="session_end", method="POST", path="/auth/logout", answer=SessionEnded, body=wanted)


def user_me_get() -> Call[MeView]:
    return Call(operation="user_me_get", method="GET", path="/users/me", answer=MeView)


def user_me_update(wanted: MeUpdate) -> Call[UserView]:
    return Call(operation="user_me_update", method="PATCH", path="/users/me", answer=UserView, body=wanted)


def org_list(query: PageQuery = FIRST_PAGE) -> Call[Page[OrgView]]:
    return Call(operation="org_list", method="GET", path="/orgs", answer=Page[OrgView], query=query)


def org_create(wanted: OrgCreate) -> Call[OrgView]:
    return Call(operation="org_create", method="POST", path="/orgs", answer=OrgView, body=wanted)


def org_get(org_id: UUID) -> Call[OrgView]:
    return Call(operation="org_get", method="GET", path=f"/orgs/{org_id}", answer=OrgView)


def org_update(org_id: UUID, wanted: OrgUpdate) -> Call[OrgView]:
    return Call(operation="org_update", method="PATCH", path=f"/orgs/{org_id}", answer=OrgView, body=wanted)


def org_delete(org_id: UUID) -> Call[Done]:
    return Call(operation="org_delete", method="DELETE", path=f"/orgs/{org_id}", answer=Done)


def project_list(org_id: UUID, query: PageQuery = FIRST_PAGE) -> Call[Page[ProjectView]]:
    path = f"/orgs/{org_id}/projects"
    return Call(operation="project_list", method="GET", path=path, answer=Page[ProjectView], query=query)


def project_create(org_id: UUID, wanted: ProjectCreate) -> Call[ProjectView]:
    path = f"/orgs/{org_id}/projects"
    return Call(operation="project_create", method="POST", path=path, answer=ProjectView, body=wanted)


def project_get(project_id: UUID) -> Call[ProjectView]:
    return Call(operation="project_get", method="GET", path=f"/projects/{project_id}", answer=ProjectView)


def project_update(project_id: UUID, wanted: ProjectUpdate) -> Call[ProjectView]:
    path = f"/projects/{project_id}"
    return Call(operation="project_update", method="PATCH", path=path, answer=ProjectView, body=wanted)


def project_delete(project_id: UUID) -> Call[Done]:
    return Call(operation="project_delete", method="DELETE", path=f"/projects/{project_id}", answer=Done)


def password_change(wanted: PasswordChange) -> Call[Done]:
    return Call(operation="password_change", method="POST", path="/users/me/password", answer=Done, body=wanted)


def ssh_key_list(query: PageQuery = FIRST_PAGE) -> Call[Page[SshKeyView]]:
    path = "/users/me/ssh-keys"
    return Call(operation="ssh_key_list", method="GET", path=path, answer=Page[SshKeyView], query=query)


def ssh_key_add(wanted: SshKeyAdd) -> Call[SshKeyView]:
    return Call(operation="ssh_key_add", method="POST", path="/users/me/ssh-keys", answer=SshKeyView, body=wanted)


def ssh_key_delete(ssh_key_id: UUID) -> Call[Done]:
    path = f"/users/me/ssh-keys/{ssh_key_id}"
    return Call(operation="ssh_key_delete", method="DELETE", path=path, answer=Done)
