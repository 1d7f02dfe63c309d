"""Who may do what: the one table. Roles are held in an organisation or a project by people and service accounts;
platform roles stand above all organisations. A permission missing here cannot be declared by an operation."""

from enum import StrEnum


class Role(StrEnum):
    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"
    BILLING = "billing"


class PlatformRole(StrEnum):
    ADMIN = "platform-admin"
    AUDITOR = "platform-auditor"


class Permission(StrEnum):
    # a person, about himself; and anyone with a credential, about the credential
    SELF = "self"
    WHOAMI = "whoami"
    # organisation and project
    ORGS_READ = "orgs.read"
    ORGS_UPDATE = "orgs.update"
    ORGS_DELETE = "orgs.delete"
    PROJECTS_READ = "projects.read"
    PROJECTS_CREATE = "projects.create"
    PROJECTS_UPDATE = "projects.update"
    PROJECTS_DELETE = "projects.delete"
    MEMBERS_READ = "members.read"
    MEMBERS_MANAGE = "members.manage"
    SERVICE_ACCOUNTS_READ = "service_accounts.read"
    SERVICE_ACCOUNTS_MANAGE = "service_accounts.manage"
    POLICY_READ = "policy.read"
    POLICY_MANAGE = "policy.manage"
    AUDIT_READ = "audit.read"
    ALLOCATIONS_READ = "allocations.read"
    ALLOCATIONS_CREATE = "allocations.create"
    ALLOCATIONS_MANAGE = "allocations.manage"
    BILLING_READ = "billing.read"
    BILLING_MANAGE = "billing.manage"
    # platform
    USERS_READ = "users.read"
    USERS_MANAGE = "users.manage"
    PLATFORM_READ = "platform.read"
    PLATFORM_MANAGE = "platform.manage"
    NODES_READ = "nodes.read"
    NODES_MANAGE = "nodes.manage"


P = Permission
PLATFORM_ONLY = frozenset(
    {
        P.USERS_READ,
        P.USERS_MANAGE,
        P.PLATFORM_READ,
        P.PLATFORM_MANAGE,
        P.NODES_READ,
        P.NODES_MANAGE,
    }
)

_VIEWER = {P.ORGS_READ, P.PROJECTS_READ, P.MEMBERS_READ, P.POLICY_READ, P.ALLOCATIONS_READ}
_MEMBER = _VIEWER | {P.SERVICE_ACCOUNTS_READ, P.ALLOCATIONS_CREATE, P.ALLOCATIONS_MANAGE}
_ADMIN = _MEMBER | {
    P.ORGS_UPDATE,
    P.PROJECTS_CREATE,
    P.PROJECTS_UPDATE,
    P.PROJECTS_DELETE,
    P.MEMBERS_MANAGE,
    P.SERVICE_ACCOUNTS_MANAGE,
    P.POLICY_MANAGE,
    P.AUDIT_READ,
    P.BILLING_READ,
}
ROLE_GRANTS: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset(_VIEWER),
    Role.BILLING: frozenset(_VIEWER | {P.BILLING_READ, P.BILLING_MANAGE}),
    Role.MEMBER: frozenset(_MEMBER),
    Role.ADMIN: frozenset(_ADMIN),
    Role.OWNER: frozenset(_ADMIN | {P.ORGS_DELETE, P.BILLING_MANAGE}),
}
PLATFORM_GRANTS: dict[PlatformRole, frozenset[Permission]] = {
    PlatformRole.ADMIN: frozenset(P) - {P.SELF, P.WHOAMI},
    PlatformRole.AUDITOR: frozenset(
        _VIEWER | {P.SERVICE_ACCOUNTS_READ, P.AUDIT_READ, P.USERS_READ, P.PLATFORM_READ, P.NODES_READ, P.BILLING_READ}
    ),
}
# Who may hand out, change or take away which role: only up to one's own.
RANK: dict[Role, int] = {Role.VIEWER: 1, Role.BILLING: 1, Role.MEMBER: 2, Role.ADMIN: 3, Role.OWNER: 4}

OF_ONESELF = frozenset({P.SELF, P.WHOAMI})
