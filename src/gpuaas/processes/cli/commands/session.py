"""Logging in and out, and who one is."""

import msgspec

from gpuaas.client import identity, login, oidc
from gpuaas.client.api import Api, check_plain_http
from gpuaas.client.errors import ApiError, ClientError, LoginFailed, NotLoggedIn
from gpuaas.client.oidc import DeviceCode
from gpuaas.client.session import Session
from gpuaas.contracts.actor import ActorKind
from gpuaas.contracts.http.sessions import SessionEnd, SessionView
from gpuaas.contracts.http.users import MeView
from gpuaas.processes.cli.browser import open_browser
from gpuaas.processes.cli.config import NAME, Context
from gpuaas.processes.cli.declare import Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import show
from gpuaas.processes.cli.run import Run

GROUP = Group("", "")


@GROUP.command(
    "login",
    Argument("--device", flag=True, help="Show a code to enter in a browser on any machine."),
    Argument("--no-browser", flag=True, help="Only print the address; do not open a browser."),
    Argument("--name", help="What to call this context. Default: the API's host and port."),
    summary="Log in to an API and make it the current context.",
    about="Without --device, a browser on this machine is opened and its answer comes to a port on the loopback "
    "address. On a machine without a browser, use --device and any other one.\n\n"
    "Programs do not log in: they use a service account's key, in GPUAAS_TOKEN or with --token-file.",
    examples=["gpuaas login --url https://gpu.example.com", "gpuaas login --device"],
)
def log_in(run: Run, *, device: bool, no_browser: bool, name: str | None) -> None:
    saved_name, context = run.place
    name = name or saved_name
    if not NAME.match(name):
        raise UsageError(f"{name!r} is not a context's name.", "Letters, digits, dots, dashes; 63 at most.")
    check_plain_http(context.url, allowed=run.plain_http)
    config = run.anonymous_api.send(identity.auth_config_get())
    client = login.Client(context.url, oidc.discover(config.issuer), config.cli_client_id, config.audience)
    if device:
        session = login.device_login(client, lambda code: _show_code(run, code))
    else:
        session = login.browser_login(client, lambda url: _show_address(run, url, open_it=not no_browser))
    run.config_file.session(name).write(session)
    known = run.config_file.read().contexts.get(name)
    kept = known if known is not None and known.url == context.url else Context(url=context.url)
    kept = msgspec.structs.replace(kept, plain_http=run.plain_http)
    run.config_file.put(name, kept, current=True)
    _welcome(run, name, session)


def _show_address(run: Run, url: str, *, open_it: bool) -> None:
    opened = open_it and run.environment.has_display and open_browser(url)
    run.out.note("Log in in the browser that was opened. If none was, open:" if opened else "Log in with a browser at:")
    print(f"\n  {show(url)}\n", file=run.out.err, flush=True)
    if not run.environment.has_display:
        run.out.note("No browser on this machine? Stop this and use: gpuaas login --device")


def _show_code(run: Run, code: DeviceCode) -> None:
    minutes = max(code.expires_in // 60, 1)
    print(f"\n  On any machine, open   {show(code.verification_uri)}", file=run.out.err)
    print(f"  and enter the code     {show(code.user_code)}\n", file=run.out.err)
    if code.verification_uri_complete:
        print(f"  Or open it with the code filled in:\n  {show(code.verification_uri_complete)}\n", file=run.out.err)
    print(f"Waiting until it is entered (it is valid for {minutes} minutes) …", file=run.out.err, flush=True)


def _welcome(run: Run, name: str, session: Session) -> None:
    with Api(session.url, run.config_file.session(name)) as api:
        try:
            me = api.send(identity.user_me_get())
        except ApiError as error:
            run.config_file.session(name).delete()
            raise LoginFailed(f"The issuer let you in, but the API does not: {error.message}") from error
    if run.out.json:
        run.out.raw(msgspec.json.encode({"context": name, "url": session.url, "email": me.email, "user_id": me.id}))
        return
    run.out.line(f"Logged in to {session.url} as {me.email or me.name}.")
    context = run.config_file.read().contexts[name]
    if context.org is None and me.orgs:
        listed = ", ".join(org.name for org in me.orgs[:5]) + (" …" if len(me.orgs) > 5 else "")
        run.out.note(f"You are in {listed}. Choose where commands act with: gpuaas use {me.orgs[-1].name}")


@GROUP.command("logout", summary="End the session: here, at the API, and at the issuer.")
def log_out(run: Run) -> None:
    if run.environment.token or run.options.token_file:
        raise UsageError("A service account's key is not logged out.", "Revoke it: gpuaas service-accounts keys revoke")
    file = run.config_file.session(run.place[0])
    session = file.read()
    if session is None:
        raise NotLoggedIn(f"You are not logged in to {run.url}.")
    unfinished = _end(run, session)
    file.delete()
    if run.out.json:
        run.out.raw(msgspec.json.encode({"context": run.place[0], "revoked": not unfinished}))
    else:
        run.out.line(f"Logged out of {session.url}.")
    if unfinished:
        run.out.note(f"The session is gone from this machine, but may live on until it expires: {unfinished}")


def _end(run: Run, session: Session) -> str:
    """End it elsewhere. What could not be reached is told, not a reason to stay logged in."""
    try:
        run.api.send(identity.session_end(SessionEnd()))
        current = run.config_file.session(run.place[0]).read() or session
        if current.refresh_token and current.revocation_endpoint:
            oidc.revoke(current.revocation_endpoint, current.client_id, current.refresh_token, "refresh_token")
    except NotLoggedIn:
        return ""
    except ClientError as error:
        return str(error)
    return ""


@GROUP.command("whoami", summary="Show who you are and where you belong.")
def whoami(run: Run) -> None:
    who = run.api.send(identity.session_get())
    if who.kind is not ActorKind.USER:
        _show_machine(run, who)
        return
    body = run.api.send_raw(identity.user_me_get())
    if run.out.json:
        run.out.raw(body)
        return
    me = msgspec.json.decode(body, type=MeView)
    run.out.fields(
        [
            ("email", me.email),
            ("name", me.name),
            ("id", me.id),
            ("platform roles", me.platform_roles),
            ("issuer", me.issuer),
            ("API", run.url),
            ("context", run.place[0]),
        ]
    )
    run.out.line("")
    run.out.table(
        [
            ("organisation", lambda org: org.name),
            ("title", lambda org: org.title),
            ("role", lambda org: org.role),
            ("chosen", lambda org: "*" if run.context.org and run.context.org.id == str(org.org_id) else " "),
        ],
        me.orgs,
        empty="You are in no organisation.",
    )


def _show_machine(run: Run, who: SessionView) -> None:
    if run.out.json:
        run.out.raw(msgspec.json.encode(who))
        return
    run.out.fields(
        [
            ("service account", who.name),
            ("id", who.id),
            ("credential id", who.credential_id),
            ("API", run.url),
        ]
    )
