"""Operating an installation."""

import msgspec

from gpuaas.client import platform
from gpuaas.client.api import decode
from gpuaas.client.errors import ApiError
from gpuaas.contracts.http.sessions import CredentialRevoke
from gpuaas.processes.cli.commands import ops_dead_letters, ops_users
from gpuaas.processes.cli.commands.audit import instant
from gpuaas.processes.cli.declare import REASON, YES, Argument, Group
from gpuaas.processes.cli.failures import Stop
from gpuaas.processes.cli.run import Run

GROUP = Group("ops", "For those who operate an installation: health, proofs, dead letters, users, credentials.")
GROUP.children["dead-letters"] = ops_dead_letters.GROUP
GROUP.children["users"] = ops_users.USERS
GROUP.children["issuer"] = ops_users.ISSUER


class Check(msgspec.Struct):
    name: str
    ok: bool
    required: bool
    reason: str


class Readiness(msgspec.Struct):
    program: str
    ready: bool
    checks: list[Check]
    degraded: bool = False


@GROUP.command("health", summary="Say whether the API is ready, and what is not. Exit 1 if it is not ready.")
def health(run: Run) -> None:
    status, body = run.anonymous_api.page("/readyz")
    try:
        found = msgspec.json.decode(body, type=Readiness)
    except msgspec.MsgspecError as error:
        raise ApiError(status, "not_from_the_api", f"{run.url}/readyz answered {status}, not as ours does.") from error
    if run.out.json:
        run.out.raw(body)
    else:
        word = "ready" if found.ready else "not ready"
        run.out.line(f"{run.url} is {word}{', but something is away' if found.degraded else ''}.")
        run.out.line("")
        run.out.table(
            [
                ("check", lambda check: check.name),
                ("state", lambda check: "ok" if check.ok else "failed"),
                ("needed", lambda check: check.required),
                ("reason", lambda check: check.reason),
            ],
            found.checks,
            empty="It checks nothing.",
        )
    if not found.ready:
        raise Stop("It is not ready.", "Look at its log; its checks say what is away.")


@GROUP.command(
    "revoke",
    Argument("credential", help="A token's jti, or the id of a service account's key."),
    Argument("--expires", help="When it would have ended by itself: a date or an instant. Default: in a year."),
    REASON,
    YES,
    summary="Put a credential on the deny-list: refused everywhere within a second.",
)
def credential_revoke(run: Run, *, credential: str, expires: str | None, reason: str, yes: bool) -> None:
    run.confirm(f"Revoke the credential {credential}? This cannot be undone.", yes=yes)
    wanted = CredentialRevoke(credential_id=credential, reason=reason, expires_at=instant(expires))
    run.show(
        platform.credential_revoke(wanted),
        [
            ("credential", lambda one: one.credential_id),
            ("revoked", lambda one: one.revoked_at),
            ("until", lambda one: one.expires_at),
            ("reason", lambda one: one.reason),
        ],
    )


@GROUP.command("refresh-keys", summary="Break-glass: read the identity provider's signing keys now, everywhere.")
def issuer_keys_refresh(run: Run) -> None:
    call = platform.issuer_keys_refresh()
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    run.out.table(
        [("issuer", lambda one: one.issuer), ("keys", lambda one: one.key_ids)],
        decode(call, body).issuers,
        empty="No issuer answered; the last good keys stay.",
    )
