"""All users of the installation, and the logins and keys of the built-in issuer."""

from uuid import UUID

from gpuaas.client import platform
from gpuaas.contracts.http.issuer import (
    IssuerAccountCreate,
    IssuerAccountOpened,
    IssuerAccountPasswordReset,
    IssuerAccountQuery,
    IssuerAccountView,
    IssuerKeyRotate,
    IssuerKeyView,
)
from gpuaas.contracts.http.orgs import OrgQuery, OrgView
from gpuaas.contracts.http.users import PlatformRolesSet, UserQuery, UserStateReason, UserView
from gpuaas.contracts.permissions import PlatformRole
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, REASON, YES, Argument, Group
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

USERS = Group("users", "All users of the installation.")
ORGS = Group("orgs", "Organisations of everybody.")
_ORG_COLUMNS: list[Column[OrgView]] = [
    ("name", lambda org: org.name),
    ("title", lambda org: org.title),
    ("personal", lambda org: org.personal),
    ("created", lambda org: org.created_at),
    ("id", lambda org: org.id),
]
ISSUER = Group("issuer", "Logins and signing keys of the built-in issuer.")
_USER = Argument("user", help="Email address or user id.")
_EMAIL = Argument("--email", help="Only those of this address.")
_COLUMNS: list[Column[UserView]] = [
    ("email", lambda user: user.email),
    ("name", lambda user: user.name),
    ("state", lambda user: user.state),
    ("platform roles", lambda user: user.platform_roles),
    ("last login", lambda user: user.last_login_at),
    ("id", lambda user: user.id),
]


def user_id(run: Run, word: str) -> UUID:
    known = names.as_id(word)
    if known is not None:
        return known
    listed = run.api.items(platform.user_list(UserQuery(email=word)))
    return names.pick(
        word.lower(), listed, lambda user: user.email.lower(), "user", "List them: gpuaas ops users list"
    ).id


@USERS.command("list", _EMAIL, LIMIT, ALL, summary="List users.")
def user_list(run: Run, *, email: str | None, limit: int, all: bool) -> None:
    run.table(platform.user_list(UserQuery(email=email)), _COLUMNS, limit=limit, all=all, empty="No such user.")


@ORGS.command(
    "list",
    Argument("--name", help="Only the one of this name."),
    LIMIT,
    ALL,
    summary="List all organisations. Commands take their name or id as --org.",
)
def org_list_all(run: Run, *, name: str | None, limit: int, all: bool) -> None:
    call = platform.org_list_all(OrgQuery(name=name))
    run.table(call, _ORG_COLUMNS, limit=limit, all=all, empty="No such organisation.")


@USERS.command("show", _USER, summary="Show a user.")
def user_get(run: Run, *, user: str) -> None:
    run.show(platform.user_get(user_id(run, user)), [*_COLUMNS, ("issuer", lambda one: one.issuer)])


@USERS.command("disable", _USER, REASON, YES, summary="Keep a user out: every token of theirs is refused in a second.")
def user_disable(run: Run, *, user: str, reason: str, yes: bool) -> None:
    found = user_id(run, user)
    run.confirm(f"Disable {user}? What they own stays; they cannot log in or call anything.", yes=yes)
    run.show(platform.user_disable(found, UserStateReason(reason=reason)), _COLUMNS)


@USERS.command("enable", _USER, REASON, summary="Let a disabled user in again.")
def user_enable(run: Run, *, user: str, reason: str) -> None:
    run.show(platform.user_enable(user_id(run, user), UserStateReason(reason=reason)), _COLUMNS)


@USERS.command(
    "platform-roles",
    _USER,
    Argument(
        "--role", many=True, choices=tuple(role.value for role in PlatformRole), help="A role to hold; several times."
    ),
    REASON,
    YES,
    summary="Say which platform roles a user holds; those not named are taken away.",
)
def user_platform_roles_set(run: Run, *, user: str, role: list[str], reason: str, yes: bool) -> None:
    found, roles = user_id(run, user), [PlatformRole(one) for one in role]
    run.confirm(f"Let {user} hold these platform roles: {', '.join(role) or 'none'}?", yes=yes)
    run.show(platform.user_platform_roles_set(found, PlatformRolesSet(roles=roles, reason=reason)), _COLUMNS)


# ── the built-in issuer ──────────────────────────────────────────────────────────────────────────

ACCOUNTS = ISSUER.group("accounts", "Logins of the built-in issuer.")
KEYS = ISSUER.group("keys", "Keys the built-in issuer signs tokens with.")
_ACCOUNT_COLUMNS: list[Column[IssuerAccountView]] = [
    ("email", lambda account: account.email),
    ("name", lambda account: account.name),
    ("must change password", lambda account: account.must_change_password),
    ("created", lambda account: account.created_at),
    ("last login", lambda account: account.last_login_at or "never"),
    ("id", lambda account: account.id),
]
_OPENED: list[Column[IssuerAccountOpened]] = [
    ("email", lambda account: account.email),
    ("password", lambda account: account.temporary_password),
    ("id", lambda account: account.id),
]
_ONCE = "The password is not shown again, and works once: at the first login another one is chosen."


@ACCOUNTS.command("list", _EMAIL, LIMIT, ALL, summary="List logins.")
def account_list(run: Run, *, email: str | None, limit: int, all: bool) -> None:
    call = platform.issuer_account_list(IssuerAccountQuery(email=email))
    run.table(call, _ACCOUNT_COLUMNS, limit=limit, all=all, empty="No such login.")


@ACCOUNTS.command(
    "create",
    Argument("email", help="Whose login."),
    Argument("--name", required=True, help="The person's name."),
    summary="Make a login with a password for one use.",
)
def account_create(run: Run, *, email: str, name: str) -> None:
    run.show(platform.issuer_account_create(IssuerAccountCreate(email=email, name=name)), _OPENED)
    if not run.out.json:
        run.out.note(_ONCE)


@ACCOUNTS.command(
    "reset-password",
    Argument("account", help="Email address or id."),
    REASON,
    YES,
    summary="Replace a password by one for one use; all sessions end.",
)
def account_password_reset(run: Run, *, account: str, reason: str, yes: bool) -> None:
    account_id = names.as_id(account)
    if account_id is None:
        listed = run.api.items(platform.issuer_account_list(IssuerAccountQuery(email=account)))
        advice = "List them: gpuaas ops issuer accounts list"
        account_id = names.pick(account.lower(), listed, lambda one: one.email.lower(), "login", advice).id
    run.confirm(f"Replace the password of {account}? All their sessions end.", yes=yes)
    run.show(platform.issuer_account_password_reset(account_id, IssuerAccountPasswordReset(reason=reason)), _OPENED)
    if not run.out.json:
        run.out.note(_ONCE)


_KEY_COLUMNS: list[Column[IssuerKeyView]] = [
    ("key", lambda key: key.key_id),
    ("algorithm", lambda key: key.algorithm),
    ("signs from", lambda key: key.signs_from),
    ("signs until", lambda key: key.signs_until or "now"),
    ("valid until", lambda key: key.valid_until),
]


@KEYS.command("list", summary="List the keys, newest first.")
def key_list(run: Run) -> None:
    _show_keys(run, rotate=None)


@KEYS.command(
    "rotate",
    Argument("--distrust-old", flag=True, help="After a compromise: tokens signed with old keys stop counting now."),
    REASON,
    YES,
    summary="Sign with a new key from now on.",
)
def key_rotate(run: Run, *, distrust_old: bool, reason: str, yes: bool) -> None:
    if distrust_old:
        run.confirm("Distrust all old keys? Everybody has to log in again.", yes=yes)
    _show_keys(run, rotate=IssuerKeyRotate(reason=reason, distrust_old=distrust_old))


def _show_keys(run: Run, *, rotate: IssuerKeyRotate | None) -> None:
    call = platform.issuer_key_list() if rotate is None else platform.issuer_key_rotate(rotate)
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
    else:
        from gpuaas.client.api import decode

        run.out.table(_KEY_COLUMNS, decode(call, body).keys, empty="No keys yet: the first login makes one.")
