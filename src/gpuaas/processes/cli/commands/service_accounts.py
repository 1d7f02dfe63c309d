"""Service accounts: identities for programs, their keys and what they may call."""

from pathlib import Path
from uuid import UUID

import msgspec

from gpuaas.client import private_file
from gpuaas.client import service_accounts as accounts
from gpuaas.client.api import decode
from gpuaas.client.call import Call
from gpuaas.contracts.http.members import RoleBelowOwner
from gpuaas.contracts.http.service_accounts import (
    KeyCreate,
    KeyCreated,
    KeyRotate,
    KeyView,
    ServiceAccountCreate,
    ServiceAccountUpdate,
    ServiceAccountView,
)
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, ORG, YES, Argument, Group, number
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column, key_state
from gpuaas.processes.cli.run import Run

GROUP = Group(
    "service-accounts", "Identities for programs: a role, keys that expire, and a list of what they may call."
)
KEYS = GROUP.group("keys", "A service account's keys. A key is shown once, when it is made.")
ALLOW = GROUP.group("allow-list", "The operations a service account may call; '*' is whatever its role allows.")
_ACCOUNT = Argument("account", help="Its name or id.")
_ROLES = tuple(role.value for role in RoleBelowOwner)
_KEY = Argument("key", help="The key's id, or how it begins (its hint).")
_DAYS = Argument("--days", kind=number, help="Days until it expires. Default: 90, or what the policy allows.")
_TO_FILE = Argument(
    "--to-file", help="Write the key to this new file (mode 600) and do not print it.", completes="file"
)
_COLUMNS: list[Column[ServiceAccountView]] = [
    ("name", lambda account: account.name),
    ("role", lambda account: account.role),
    ("project", lambda account: account.project_id or "all"),
    ("may call", lambda account: account.allowed_operations),
    ("created", lambda account: account.created_at),
    ("id", lambda account: account.id),
]
_KEY_COLUMNS: list[Column[KeyView]] = [
    ("begins", lambda key: key.hint),
    ("state", lambda key: key_state(revoked_at=key.revoked_at, expires_at=key.expires_at)),
    ("created", lambda key: key.created_at),
    ("expires", lambda key: key.expires_at),
    ("last used", lambda key: key.last_used_at or "never"),
    ("id", lambda key: key.id),
]


def account_of(run: Run, org: str | None, word: str) -> tuple[UUID, UUID]:
    """Organisation and account, from names or ids."""
    org_id, known = names.org(run, org), names.as_id(word)
    if known is not None:
        return org_id, known
    listed = run.api.items(accounts.service_account_list(org_id, names.LARGEST_PAGE))
    advice = "See them with: gpuaas service-accounts list"
    return org_id, names.pick(word, listed, lambda account: account.name, "service account", advice).id


@GROUP.command("list", ORG, LIMIT, ALL, summary="List an organisation's service accounts.")
def account_list(run: Run, *, org: str | None, limit: int, all: bool) -> None:
    call = accounts.service_account_list(names.org(run, org))
    run.table(call, _COLUMNS, limit=limit, all=all, empty="There are no service accounts.")


@GROUP.command("show", _ACCOUNT, ORG, summary="Show a service account.")
def account_show(run: Run, *, account: str, org: str | None) -> None:
    run.show(accounts.service_account_get(*account_of(run, org, account)), _COLUMNS)


@GROUP.command(
    "create",
    Argument("name", help="Lower-case letters, digits and dashes; unique in the organisation."),
    Argument("--role", choices=_ROLES, required=True, help="Its role, not above yours."),
    Argument("--allow", many=True, required=True, help="An operation it may call; several times, or '*' for all."),
    Argument("--project", help="Hold the role in this project only.", completes="project"),
    ORG,
    summary="Create a service account.",
    about="Operations are listed at /api/docs. Then make a key: gpuaas service-accounts keys create NAME",
    examples=["gpuaas service-accounts create ci --role member --allow project_list --allow project_get"],
)
def account_create(run: Run, *, name: str, role: str, allow: list[str], project: str | None, org: str | None) -> None:
    wanted = ServiceAccountCreate(
        name=name,
        role=RoleBelowOwner(role),
        allowed_operations=split(allow),
        project_id=None if project is None else names.project_id(run, project, org),
    )
    run.show(accounts.service_account_create(names.org(run, org), wanted), _COLUMNS)


@GROUP.command(
    "update",
    _ACCOUNT,
    Argument("--name", help="A new name."),
    Argument("--role", choices=_ROLES, help="A new role."),
    ORG,
    summary="Change a service account's name or role.",
)
def account_update(run: Run, *, account: str, name: str | None, role: str | None, org: str | None) -> None:
    if name is None and role is None:
        raise UsageError("Nothing to change.", "Say --name or --role.")
    wanted = ServiceAccountUpdate(
        name=msgspec.UNSET if name is None else name, role=msgspec.UNSET if role is None else RoleBelowOwner(role)
    )
    run.show(accounts.service_account_update(*account_of(run, org, account), wanted), _COLUMNS)


@GROUP.command("delete", _ACCOUNT, ORG, YES, summary="Delete a service account; its keys stop working at once.")
def account_delete(run: Run, *, account: str, org: str | None, yes: bool) -> None:
    found = account_of(run, org, account)
    run.confirm(f"Delete the service account {account}? Its keys stop working at once.", yes=yes)
    run.done(accounts.service_account_delete(*found), f"Service account {account} is deleted.")


# ── what it may call ─────────────────────────────────────────────────────────────────────────────

_OPERATIONS = Argument("operations", many=True, help="Operation ids, or '*'.")


@ALLOW.command("set", _ACCOUNT, _OPERATIONS, ORG, summary="Say exactly what it may call.")
def allow_set(run: Run, *, account: str, operations: list[str], org: str | None) -> None:
    wanted = ServiceAccountUpdate(allowed_operations=split(operations))
    run.show(accounts.service_account_update(*account_of(run, org, account), wanted), _COLUMNS)


@ALLOW.command("add", _ACCOUNT, _OPERATIONS, ORG, summary="Let it call more.")
def allow_add(run: Run, *, account: str, operations: list[str], org: str | None) -> None:
    found = account_of(run, org, account)
    now = run.api.send(accounts.service_account_get(*found)).allowed_operations
    wanted = ServiceAccountUpdate(allowed_operations=list(dict.fromkeys([*now, *split(operations)])))
    run.show(accounts.service_account_update(*found, wanted), _COLUMNS)


@ALLOW.command("remove", _ACCOUNT, _OPERATIONS, ORG, summary="Let it call less.")
def allow_remove(run: Run, *, account: str, operations: list[str], org: str | None) -> None:
    found = account_of(run, org, account)
    now, less = run.api.send(accounts.service_account_get(*found)).allowed_operations, set(split(operations))
    strangers = less - set(now)
    if strangers:
        raise UsageError(f"Not on the list: {', '.join(sorted(strangers))}.", f"On it: {', '.join(now)}.")
    left = [operation for operation in now if operation not in less]
    if not left:
        raise UsageError("Nothing would be left on the list.", "Delete the account, or revoke its keys.")
    run.show(accounts.service_account_update(*found, ServiceAccountUpdate(allowed_operations=left)), _COLUMNS)


def split(words: list[str]) -> list[str]:
    """Operations, given one by one or with commas."""
    return [part for word in words for part in word.split(",") if part]


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


@KEYS.command("list", _ACCOUNT, ORG, LIMIT, ALL, summary="List a service account's keys, the ended ones too.")
def key_list(run: Run, *, account: str, org: str | None, limit: int, all: bool) -> None:
    call = accounts.service_account_key_list(*account_of(run, org, account))
    run.table(
        call, _KEY_COLUMNS, limit=limit, all=all, empty="No keys. Make one: gpuaas service-accounts keys create NAME"
    )


@KEYS.command(
    "create",
    _ACCOUNT,
    _DAYS,
    _TO_FILE,
    ORG,
    summary="Make a key. It is shown once.",
    examples=["gpuaas service-accounts keys create ci --to-file ci.key", "gpuaas --token-file ci.key projects list"],
)
def key_create(run: Run, *, account: str, days: int | None, to_file: str | None, org: str | None) -> None:
    found = account_of(run, org, account)
    _give(run, accounts.service_account_key_create(*found, KeyCreate(expires_in_days=days)), to_file)


@KEYS.command(
    "rotate",
    _ACCOUNT,
    _KEY,
    Argument("--overlap-seconds", kind=number, default=3600, help="How long the old one still works. Default: 3600."),
    _DAYS,
    _TO_FILE,
    ORG,
    summary="Replace a key by a new one, shown once.",
)
def key_rotate(
    run: Run, *, account: str, key: str, overlap_seconds: int, days: int | None, to_file: str | None, org: str | None
) -> None:
    org_id, account_id = account_of(run, org, account)
    wanted = KeyRotate(overlap_seconds=overlap_seconds, expires_in_days=days)
    key_id = _key_id(run, org_id, account_id, key)
    _give(run, accounts.service_account_key_rotate(org_id, account_id, key_id, wanted), to_file)


@KEYS.command("revoke", _ACCOUNT, _KEY, ORG, YES, summary="Revoke a key: refused everywhere within a second.")
def key_revoke(run: Run, *, account: str, key: str, org: str | None, yes: bool) -> None:
    org_id, account_id = account_of(run, org, account)
    key_id = _key_id(run, org_id, account_id, key)
    run.confirm(f"Revoke the key {key} of {account}? What uses it stops working.", yes=yes)
    run.show(accounts.service_account_key_revoke(org_id, account_id, key_id), _KEY_COLUMNS)


def _key_id(run: Run, org_id: UUID, account_id: UUID, word: str) -> UUID:
    known = names.as_id(word)
    if known is not None:
        return known
    listed = run.api.items(accounts.service_account_key_list(org_id, account_id, names.LARGEST_PAGE))
    advice = "See them with: gpuaas service-accounts keys list"
    return names.pick(word, listed, lambda key: key.hint, "key", advice).id


def _give(run: Run, call: Call[KeyCreated], to_file: str | None) -> None:
    path = None if to_file is None else Path(to_file)
    if path is not None and path.exists():
        raise UsageError(f"{path} exists already.", "Name a new file.")
    body = run.api.send_raw(call)
    made = decode(call, body)
    if path is not None and made.key is not None:
        private_file.write(path, made.key.encode() + b"\n")
        body = msgspec.json.encode(msgspec.structs.replace(made, key=None))
    if run.out.json:
        run.out.raw(body)
        return
    run.out.fields(
        [
            ("key", made.key if path is None else f"in {path}"),
            ("id", made.id),
            ("expires", made.expires_at),
        ]
    )
    if path is None:
        run.out.note("The key is not shown again. Use it in GPUAAS_TOKEN or with --token-file.")
