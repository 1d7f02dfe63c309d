"""Operating an installation."""

import msgspec

from gpuaas.client import platform
from gpuaas.client.api import Api, decode
from gpuaas.client.errors import ApiError
from gpuaas.contracts.http.admin import Verification, VerifyQuery
from gpuaas.contracts.http.sessions import CredentialRevoke
from gpuaas.processes.cli.commands import (
    flows,
    ops_books,
    ops_data_keys,
    ops_dead_letters,
    ops_emails,
    ops_faults,
    ops_fleet,
    ops_orphans,
    ops_payments,
    ops_reconcile,
    ops_standing,
    ops_users,
)
from gpuaas.processes.cli.commands.audit import instant
from gpuaas.processes.cli.declare import REASON, YES, Argument, Group, number
from gpuaas.processes.cli.failures import Stop
from gpuaas.processes.cli.run import Run

GROUP = Group(
    "ops", "For those who operate an installation: health, proofs, the fleet, dead letters, users, credentials."
)
GROUP.children["dead-letters"] = ops_dead_letters.GROUP
GROUP.children["emails"] = ops_emails.GROUP
GROUP.children["users"] = ops_users.USERS
GROUP.children["orgs"] = ops_users.ORGS
GROUP.children["issuer"] = ops_users.ISSUER
GROUP.children |= ops_fleet.GROUP.children
GROUP.children["flows"] = flows.GROUP
GROUP.children["orphans"] = ops_orphans.GROUP
GROUP.children["faults"] = ops_faults.GROUP
GROUP.children["data-keys"] = ops_data_keys.GROUP
GROUP.children["books"] = ops_books.GROUP
GROUP.children["standing"] = ops_standing.GROUP
GROUP.children["payments"] = ops_payments.GROUP
GROUP.children |= ops_reconcile.GROUP.children


VERIFY_SECONDS = 3600.0
SHOWN_ROWS = 5


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


@GROUP.command(
    "verify",
    Argument("--chain-from", kind=number, default=1, help="Check the audit chain from this link on. Default: 1."),
    summary="Prove that everything that must hold does, and that the audit log was not rewritten.",
    about="Ends with 1, and shows the first rows that break a rule, if there are any.",
)
def ops_verify(run: Run, *, chain_from: int) -> None:
    call = platform.ops_verify(VerifyQuery(chain_from=chain_from))
    with Api(run.url, run.credentials, timeout_seconds=VERIFY_SECONDS) as patient:
        body = patient.send_raw(call)
    found = decode(call, body)
    if run.out.json:
        run.out.raw(body)
    else:
        _show_verification(run, found)
    broken = next((one for one in found.invariants if not one.holds), None)
    if broken is not None:
        first = broken.first[0] if broken.first else None
        row = f" {first.subject}: {first.problem}" if first else ""
        raise Stop(f"{broken.name} does not hold.{row}", broken.statement)


def _show_verification(run: Run, found: Verification) -> None:
    run.out.table(
        [
            ("invariant", lambda one: one.name),
            ("state", lambda one: "ok" if one.holds else "failed"),
            ("rows", lambda one: one.count),
            ("statement", lambda one: one.statement),
        ],
        found.invariants,
        empty="There is nothing to check.",
    )
    rows = [(one.name, finding) for one in found.invariants for finding in one.first[:SHOWN_ROWS]]
    if rows:
        run.out.line("")
        run.out.table(
            [
                ("breaks", lambda row: row[0]),
                ("subject", lambda row: row[1].subject),
                ("problem", lambda row: row[1].problem),
            ],
            rows,
            empty="",
        )
    chain = found.chain
    run.out.note(
        f"{chain.links} links of the audit chain from {chain.from_link} on and {chain.checkpoints} signed checkpoints "
        f"were recomputed; it took {found.seconds:.1f} s."
    )


@GROUP.command("health", summary="Tell what is behind or away in the installation. Ends with 1 if something is.")
def ops_health(run: Run) -> None:
    call = platform.ops_health()
    body = run.api.send_raw(call)
    found = decode(call, body)
    if run.out.json:
        run.out.raw(body)
    else:
        _show_checks(run, [(check.name, check.ok, check.reason) for check in found.checks])
        run.out.line("")
        figures = {
            name: round(value, 1) if isinstance(value, float) else value
            for name, value in msgspec.to_builtins(found.figures).items()
        }
        behind = [f"{one.consumer} {one.behind_seconds:.1f} s" for one in found.figures.consumers]
        run.out.fields([(name.replace("_", " "), value) for name, value in (figures | {"consumers": behind}).items()])
    if not found.ok:
        raise Stop("Not all is well.", "The reasons above say what to look at.")


@GROUP.command("stats", summary="Tell how the program that answers fares: memory, connections, requests.")
def process_stats(run: Run) -> None:
    call = platform.process_stats()
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    told = msgspec.to_builtins(decode(call, body))
    for pool in ("read_pool", "write_pool"):
        told[pool] = f"{told[pool]['in_use']} of {told[pool]['size']}"
    run.out.fields([(name.replace("_", " "), value) for name, value in told.items()])


@GROUP.command("ready", summary="Say whether the API is ready; needs no login. Ends with 1 if it is not.")
def ready(run: Run) -> None:
    status, body = run.anonymous_api.page("/readyz")
    try:
        found = msgspec.json.decode(body, type=Readiness)
    except msgspec.MsgspecError as error:
        raise ApiError(status, "not_from_the_api", f"{run.url}/readyz answered {status}, not as ours does.") from error
    if run.out.json:
        run.out.raw(body)
    else:
        _show_checks(run, [(check.name, check.ok, check.reason) for check in found.checks])
    if not found.ready:
        raise Stop(f"{run.url} is not ready.", "Look at its log; its checks say what is away.")


def _show_checks(run: Run, checks: list[tuple[str, bool, str]]) -> None:
    run.out.table(
        [
            ("check", lambda check: check[0]),
            ("state", lambda check: "ok" if check[1] else "failed"),
            ("reason", lambda check: check[2]),
        ],
        checks,
        empty="It checks nothing.",
    )


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
