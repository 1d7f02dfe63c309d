"""Verbs of the pages.

Always holds: a code goes only to an address that was checked in the same request; a login gets a session cookie the
browser did not have before; no form of another site has an effect."""

import math
from collections.abc import Mapping
from urllib.parse import urlencode
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.issuer import authorization, pages
from gpuaas.domains.issuer.accounts import service as accounts
from gpuaas.domains.issuer.accounts.models import Account
from gpuaas.domains.issuer.accounts.password_rules import normal, problem
from gpuaas.domains.issuer.accounts.service import Attempt
from gpuaas.domains.issuer.authorization import AuthorizationRequest, RequestRefused, RequestUntrusted
from gpuaas.domains.issuer.browser.models import Browser, Outcome
from gpuaas.domains.issuer.clients import CLI, origin
from gpuaas.domains.issuer.grants import service as grants
from gpuaas.domains.issuer.models import Desk
from gpuaas.domains.issuer.oauth import Error
from gpuaas.domains.issuer.sessions import service as sessions
from gpuaas.domains.issuer.sessions.models import Session
from gpuaas.infra.passwords import Passwords
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Sight, Tx
from gpuaas.infra.signing import Purpose
from gpuaas.kit import clock
from gpuaas.kit.errors import Broken

TICKET_TYP = "gpuaas-password+jwt"
TICKET_SECONDS = 600
STALE_FORM = "This form was too old or came from elsewhere. Please try again."
WRONG_LOGIN = "Email or password is not right."


async def authorize(tx: Tx, desk: Desk, browser: Browser, sent: Mapping[str, str]) -> Outcome:
    """The authorization endpoint: a code for a browser that is logged in, else the login page."""
    try:
        request = authorization.read(desk.issuer, sent)
    except RequestUntrusted as untrusted:
        return Outcome(html=pages.message("This login cannot continue", str(untrusted)), status=400)
    except RequestRefused as refused:
        return Outcome(redirect=refused.redirect)
    session = await sessions.session_get(tx, browser.session_cookie)
    if session is not None and await _may_stay(tx, desk, request, session):
        return await _code(tx, desk, request, session)
    if "none" in request.prompts:
        return Outcome(
            redirect=authorization.refusal(
                desk.issuer, request.redirect_uri, request.state, Error.LOGIN_REQUIRED, "nobody is logged in"
            )
        )
    return login_page(desk, browser, sent, email=request.login_hint[: accounts.MAX_EMAIL])


async def _code(tx: Tx, desk: Desk, request: AuthorizationRequest, session: Session) -> Outcome:
    code = await grants.code_issue(tx, request, session)
    return Outcome(
        redirect=authorization.success(desk.issuer, request, code),
        happened="code given",
        subject=str(session.account_id),
    )


async def _may_stay(tx: Tx, desk: Desk, request: AuthorizationRequest, session: Session) -> bool:
    """Whether a session is enough: recent enough, and of the person the client means, if it says whom."""
    if request.wants_login(session.auth_time, clock.now()):
        return False
    if not request.id_token_hint:
        return True
    said = await desk.keys.read_token(tx, Purpose.ISSUER, request.id_token_hint, typ="JWT")
    return said is not None and said.get("sub") == str(session.account_id)


def login_page(
    desk: Desk,
    browser: Browser,
    sent: Mapping[str, str],
    *,
    email: str = "",
    alert: str = "",
    status: int = 200,
    retry_after: int = 0,
    happened: str = "",
) -> Outcome:
    """The login form; it carries the request it interrupts in its action."""
    client, targets = _whom(desk, sent)
    return Outcome(
        html=pages.login(
            action=_action(desk, "login", sent), token=browser.form_token, client=client, email=email, alert=alert
        ),
        status=status,
        form_targets=targets,
        retry_after=retry_after,
        happened=happened,
    )


def _whom(desk: Desk, sent: Mapping[str, str]) -> tuple[str, str]:
    """The name of the program a login is for, and where its form may lead beside ourselves."""
    client = desk.issuer.clients.get(sent.get("client_id", CLI))
    if client is None:
        return "GPUaaS", ""
    uri = sent.get("redirect_uri", "")
    if not uri or not client.may_redirect_to(uri):
        return client.name, ""
    return client.name, " http:" if "[" in uri else f" {origin(uri)}"  # browsers' policies cannot name IPv6 addresses


def _action(desk: Desk, name: str, sent: Mapping[str, str]) -> str:
    kept = {key: sent[key] for key in (*authorization.NAMES, "flow", "user_code") if key in sent}
    return f"{desk.issuer.path}/{name}?{urlencode(kept)}"


async def login(tx: Tx, desk: Desk, browser: Browser, sent: Mapping[str, str], attempt: Attempt | None) -> Outcome:
    """What follows a password that was tried. `sent` is the request the login interrupts."""
    if attempt is None:
        return login_page(desk, browser, sent, alert=STALE_FORM, status=400)
    if attempt.wait_seconds > 0:
        wait = math.ceil(attempt.wait_seconds)
        return login_page(
            desk,
            browser,
            sent,
            email=attempt.email,
            status=429,
            retry_after=wait,
            happened="waiting",
            alert=f"Too many wrong passwords. Try again in {wait} seconds.",
        )
    if attempt.account is None or not await accounts.login_accepted(tx, attempt):
        return login_page(
            desk, browser, sent, email=attempt.email, alert=WRONG_LOGIN, status=400, happened="wrong password"
        )
    if attempt.account.must_change:
        return await _ask_for_password(tx, desk, browser, sent, attempt.account)
    return await _logged_in(tx, desk, browser, sent, attempt.account)


async def _ask_for_password(tx: Tx, desk: Desk, browser: Browser, sent: Mapping[str, str], account: Account) -> Outcome:
    signer = await desk.keys.signer(tx, Purpose.ISSUER)
    ticket = signer.token(
        {
            "iss": desk.issuer.url,
            "sub": str(account.id),
            "version": account.password_version,
            "exp": clock.epoch_s() + TICKET_SECONDS,
        },
        typ=TICKET_TYP,
    )
    return _password_page(desk, browser, sent, ticket, account.email, happened="temporary password")


def _password_page(
    desk: Desk,
    browser: Browser,
    sent: Mapping[str, str],
    ticket: str,
    email: str,
    *,
    alert: str = "",
    happened: str = "",
) -> Outcome:
    return Outcome(
        html=pages.choose_password(
            action=_action(desk, "password", sent), token=browser.form_token, ticket=ticket, email=email, alert=alert
        ),
        status=400 if alert else 200,
        form_targets=_whom(desk, sent)[1],
        happened=happened,
    )


async def password_prepare(
    db: Database, desk: Desk, passwords: Passwords, form: Mapping[str, str]
) -> tuple[Account, str, str] | None:
    """Before the transaction: the account the ticket is for, the new password's hash, or what is wrong with it."""
    async with db.read(Sight()) as tx:
        said = await desk.keys.read_token(tx, Purpose.ISSUER, form.get("ticket", ""), typ=TICKET_TYP)
        if said is None or said["exp"] < clock.epoch_s():
            return None
        account = await accounts.account_get(tx, UUID(said["sub"]))
    if account is None or account.password_version != said["version"]:
        return None
    wanted = form.get("new_password", "")
    wrong = problem(wanted, account.email, account.name)
    if wrong is None and wanted != form.get("again"):
        wrong = "The two passwords differ. Type the same one twice."
    return account, "" if wrong else await passwords.hash(normal(wanted)), wrong or ""


async def password_choose(
    tx: Tx,
    desk: Desk,
    browser: Browser,
    sent: Mapping[str, str],
    form: Mapping[str, str],
    prepared: tuple[Account, str, str] | None,
) -> Outcome:
    if prepared is None:
        return login_page(desk, browser, sent, alert=STALE_FORM, status=400)
    account, password_hash, wrong = prepared
    if wrong:
        return _password_page(desk, browser, sent, form.get("ticket", ""), account.email, alert=wrong)
    changed = await accounts.password_set(tx, account, password_hash=password_hash)
    if changed is None:
        return login_page(desk, browser, sent, alert=STALE_FORM, status=400)
    await grants.families_end(tx, account.id, "password changed")
    return await _logged_in(tx, desk, browser, sent, changed)


async def _logged_in(tx: Tx, desk: Desk, browser: Browser, sent: Mapping[str, str], account: Account) -> Outcome:
    """Begin the session under a new cookie, and go on with what the login interrupted."""
    before = await sessions.session_get(tx, browser.session_cookie)
    if before is not None and before.account_id != account.id:
        await session_end(tx, before.id)
    session, cookie = await sessions.session_begin(tx, account.id, seconds=desk.session_seconds, before=before)
    if sent.get("flow") == "device":
        typed = urlencode({"user_code": sent["user_code"][:40]}) if sent.get("user_code") else ""
        outcome = Outcome(redirect=f"{desk.issuer.path}/device?{typed}".rstrip("?"))
    else:
        try:
            request = authorization.read(desk.issuer, sent)
            outcome = await _code(tx, desk, request, session)
        except RequestUntrusted as untrusted:
            outcome = Outcome(html=pages.message("You are logged in", str(untrusted)), status=400)
        except RequestRefused as refused:
            outcome = Outcome(redirect=refused.redirect)
    return _with_session(outcome, cookie, account)


def _with_session(outcome: Outcome, cookie: str, account: Account) -> Outcome:
    return Outcome(
        html=outcome.html,
        redirect=outcome.redirect,
        status=outcome.status,
        session_cookie=cookie,
        happened="logged in",
        subject=str(account.id),
    )


async def session_end(tx: Tx, session_id: UUID) -> None:
    """A browser logs out: its session ends, and every login of a client that lived by it."""
    await sessions.session_end(tx, session_id)
    await grants.families_end_with_session(tx, session_id, "logged out")


async def logout(tx: Tx, desk: Desk, browser: Browser, sent: Mapping[str, str], *, confirmed: bool) -> Outcome:
    """RP-initiated logout: at once when the client shows whose session it is, else after the person agreed."""
    hint = await desk.keys.read_token(tx, Purpose.ISSUER, sent.get("id_token_hint", ""), typ="JWT")
    session = await sessions.session_get(tx, browser.session_cookie)
    back = _return_address(desk, hint, sent)
    if session is None:
        return _logged_out(back)
    if not confirmed and (hint is None or hint.get("sub") != str(session.account_id)):
        account = await account_of(tx, session)
        kept = {key: sent[key] for key in ("post_logout_redirect_uri", "client_id", "state") if key in sent}
        return Outcome(
            html=pages.logout_confirm(
                action=f"{desk.issuer.path}/logout?{urlencode(kept)}", token=browser.form_token, email=account.email
            ),
            form_targets=f" {origin(back)}" if back else "",
        )
    await session_end(tx, session.id)
    return _logged_out(back, subject=str(session.account_id))


def _logged_out(back: str, subject: str = "") -> Outcome:
    page = "" if back else pages.message("You are logged out", "You can close this window.")
    return Outcome(
        html=page, redirect=back, session_cookie="", happened="logged out" if subject else "", subject=subject
    )


def _return_address(desk: Desk, hint: dict[str, object] | None, sent: Mapping[str, str]) -> str:
    """Where the browser goes after a logout, if the client may send it there."""
    named = str(hint["aud"]) if hint is not None else sent.get("client_id", "")
    client, uri = desk.issuer.clients.get(named), sent.get("post_logout_redirect_uri", "")
    if client is None or not client.may_return_to(uri) or sent.get("client_id", named) != named:
        return ""
    state = sent.get("state", "")
    return f"{uri}?{urlencode({'state': state})}" if 0 < len(state) <= authorization.MAX_TEXT else uri


async def account_of(tx: Tx, session: Session) -> Account:
    account = await accounts.account_get(tx, session.account_id)
    if account is None:
        raise Broken(Code.INTERNAL, "Something failed on our side.", log=f"session {session.id} has no account")
    return account
