"""Invitations into an organisation."""

import sys

from gpuaas.client import members
from gpuaas.contracts.http.members import InvitationAccept, InvitationCreate, InvitationState, InvitationView
from gpuaas.contracts.permissions import Role
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, ORG, YES, Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column, show
from gpuaas.processes.cli.run import Run

GROUP = Group("invitations", "People join an organisation by invitation, with the address that was invited.")
_COLUMNS: list[Column[InvitationView]] = [
    ("email", lambda invitation: invitation.email),
    ("role", lambda invitation: invitation.role),
    ("state", lambda invitation: invitation.state),
    ("created", lambda invitation: invitation.created_at),
    ("expires", lambda invitation: invitation.expires_at),
    ("id", lambda invitation: invitation.id),
]


@GROUP.command("list", ORG, LIMIT, ALL, summary="List invitations and what became of them.")
def invitation_list(run: Run, *, org: str | None, limit: int, all: bool) -> None:
    call = members.invitation_list(names.org(run, org))
    run.table(call, _COLUMNS, limit=limit, all=all, empty="Nobody was invited yet.")


@GROUP.command(
    "create",
    Argument("email", help="Who is invited."),
    Argument("--role", choices=tuple(role.value for role in Role), default="member", help="The role. Default: member."),
    ORG,
    summary="Invite somebody; the token to accept with is shown once.",
    examples=["gpuaas invitations create ada@example.com --role admin"],
)
def invitation_create(run: Run, *, email: str, role: str, org: str | None) -> None:
    wanted = InvitationCreate(email=email, role=Role(role))
    made = run.show(
        members.invitation_create(names.org(run, org), wanted),
        [
            ("email", lambda one: one.email),
            ("role", lambda one: one.role),
            ("expires", lambda one: one.expires_at),
            ("token", lambda one: one.token),
        ],
    )
    if not run.out.json and made.token:
        run.out.note("The token is not shown again. Whoever was invited runs: gpuaas invitations accept")


@GROUP.command(
    "accept",
    Argument("token", help="The token; asked for when left out, so that it stays out of the history.", optional=True),
    summary="Join the organisation you were invited to.",
)
def invitation_accept(run: Run, *, token: str | None) -> None:
    joined = run.done(
        members.invitation_accept(InvitationAccept(token=token or _read_token())), "You are a member now."
    )
    if not run.out.json:
        run.out.note(f"Your role is {show(joined.role)}. See: gpuaas orgs list")


def _read_token() -> str:
    if sys.stdin.isatty():
        from getpass import getpass

        token = getpass("Token: ").strip()
    else:
        token = sys.stdin.readline(1000).strip()
    if not token:
        raise UsageError("No token was given.")
    return token


@GROUP.command(
    "revoke", Argument("invitation", help="Email address or id of an open one."), ORG, YES, summary="Take one back."
)
def invitation_revoke(run: Run, *, invitation: str, org: str | None, yes: bool) -> None:
    org_id = names.org(run, org)
    invitation_id = names.as_id(invitation)
    if invitation_id is None:
        listed = run.api.items(members.invitation_list(org_id, names.LARGEST_PAGE))
        still_open = (one for one in listed if one.state is InvitationState.OPEN)
        advice = "See them with: gpuaas invitations list"
        found = names.pick(invitation.lower(), still_open, lambda one: one.email.lower(), "open invitation", advice)
        invitation_id = found.id
    run.confirm(f"Take back the invitation of {invitation}?", yes=yes)
    run.done(members.invitation_revoke(org_id, invitation_id), f"The invitation of {invitation} is taken back.")
