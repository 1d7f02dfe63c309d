"""The issuer's operations: protocol endpoints below /oidc in the RFCs' shapes, and the JSON ones about logins and keys.

A refusal of the protocol is an answer, not a fault: what the verb did before it commits."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Done, Page
from gpuaas.contracts.http.issuer import (
    IssuerAccountCreate,
    IssuerAccountOpened,
    IssuerAccountPasswordReset,
    IssuerAccountQuery,
    IssuerAccountView,
    IssuerKeyList,
    IssuerKeyRotate,
    IssuerKeyView,
    PasswordChange,
)
from gpuaas.contracts.permissions import P
from gpuaas.domains.issuer import cookies, forgery, pages, service
from gpuaas.domains.issuer.accounts import service as accounts
from gpuaas.domains.issuer.accounts.models import Account
from gpuaas.domains.issuer.browser import service as browsers
from gpuaas.domains.issuer.browser.models import Browser, Outcome
from gpuaas.domains.issuer.devices import service as devices
from gpuaas.domains.issuer.models import Desk
from gpuaas.domains.issuer.oauth import OAuthRefusal
from gpuaas.domains.issuer.provider import Issuer
from gpuaas.domains.issuer.tokens import service as tokens
from gpuaas.infra.http.context import Context, PlatformContext, PublicContext, UserContext
from gpuaas.infra.http.operation import Exchange, Lane, Raw, Wire, operation
from gpuaas.infra.passwords import Passwords
from gpuaas.infra.postgres.finish import AuditEntry, finish
from gpuaas.infra.postgres.tx import NIL, Sight, Tx
from gpuaas.infra.signing import PublicKey, SigningKeys
from gpuaas.kit.ids import new_id

REALM = "gpuaas"
PAGE_HEADERS = (("referrer-policy", "same-origin"), ("x-frame-options", "DENY"))
_ENCODER = msgspec.json.Encoder()


def desk(cx: Context) -> Desk:
    return Desk(issuer=cx.parts.get(Issuer), keys=cx.parts.get(SigningKeys), policy=cx.policy)


# ── for programs ─────────────────────────────────────────────────────────────────────────────────────────────────────


@operation("GET", "/oidc/.well-known/openid-configuration", lane=Lane.DEFAULT, wire=Wire.OAUTH, transaction=False)
async def oidc_discovery(cx: PublicContext, exchange: Exchange) -> Raw:
    """What the built-in issuer is and supports (OpenID Connect Discovery)."""
    return _json(desk(cx).issuer.discovery())


@operation("GET", "/oidc/jwks", lane=Lane.DEFAULT, wire=Wire.OAUTH, transaction=False)
async def oidc_jwks(cx: PublicContext, exchange: Exchange) -> Raw:
    """The keys its tokens are signed with (RFC 7517)."""
    return _json(await service.BuiltInKeys(cx.db, cx.parts.get(SigningKeys)).fetch())


@operation("POST", "/oidc/token", lane=Lane.AUTH, audit="issuer.token_issue", wire=Wire.OAUTH)
async def oidc_token(cx: PublicContext, exchange: Exchange) -> Raw:
    """Exchange a code, refresh token, device code or service-account key for tokens (RFC 6749)."""
    return await _spoken(cx, _token(cx, exchange.form))


@operation("POST", "/oidc/device_authorization", lane=Lane.AUTH, audit="issuer.device_begin", wire=Wire.OAUTH)
async def oidc_device_authorization(cx: PublicContext, exchange: Exchange) -> Raw:
    """Begin the login of a machine without a browser (RFC 8628)."""
    return await _spoken(cx, tokens.device_begin(cx.tx, desk(cx), cx.headers, exchange.form, cx.client_ip))


@operation("POST", "/oidc/revoke", lane=Lane.AUTH, audit="issuer.token_revoke", wire=Wire.OAUTH)
async def oidc_revoke(cx: PublicContext, exchange: Exchange) -> Raw:
    """Take a token back (RFC 7009)."""
    return await _spoken(cx, _revoke(cx, exchange.form))


@operation("GET", "/oidc/userinfo", lane=Lane.DEFAULT, wire=Wire.OAUTH)
async def oidc_userinfo(cx: PublicContext, exchange: Exchange) -> Raw:
    """Who an access token of the built-in issuer is for (OpenID Connect Core, 5.3)."""
    return await _spoken(cx, tokens.userinfo_get(cx.tx, desk(cx), cx.headers, {}))


@operation("POST", "/oidc/userinfo", lane=Lane.AUTH, audit="issuer.userinfo", wire=Wire.OAUTH)
async def oidc_userinfo_post(cx: PublicContext, exchange: Exchange) -> Raw:
    """The same for clients that post."""
    cx.unaudited = True
    return await _spoken(cx, tokens.userinfo_get(cx.tx, desk(cx), cx.headers, exchange.form))


# ── for people ───────────────────────────────────────────────────────────────────────────────────────────────────────


@operation("GET", "/oidc/authorize", lane=Lane.DEFAULT, wire=Wire.PAGE, transaction=False)
async def oidc_authorize(cx: PublicContext, exchange: Exchange) -> Raw:
    """Begin a login in the browser (authorization code with PKCE)."""
    browser = _browser(cx, exchange)
    return await _visited(
        cx, browser, "authorize", lambda tx: browsers.authorize(tx, desk(cx), browser, exchange.query)
    )


@operation("POST", "/oidc/authorize", lane=Lane.AUTH, audit="issuer.authorize", wire=Wire.PAGE)
async def oidc_authorize_post(cx: PublicContext, exchange: Exchange) -> Raw:
    """The same for clients that post."""
    browser = _browser(cx, exchange)
    return _shown(cx, browser, await browsers.authorize(cx.tx, desk(cx), browser, exchange.form))


async def _login_prepare(cx: PublicContext, exchange: Exchange) -> accounts.Attempt | None:
    if not _browser(cx, exchange).genuine:
        return None
    form = exchange.form
    return await accounts.login_try(
        cx.db, cx.parts.get(Passwords), cx.policy, email=form.get("email", ""), password=form.get("password", "")
    )


@operation("POST", "/oidc/login", lane=Lane.AUTH, audit="issuer.login", wire=Wire.PAGE, prepare=_login_prepare)
async def oidc_login(cx: PublicContext, exchange: Exchange) -> Raw:
    """Log in with email and password."""
    browser = _browser(cx, exchange)
    return _shown(cx, browser, await browsers.login(cx.tx, desk(cx), browser, exchange.query, cx.prepared))


async def _password_prepare(cx: PublicContext, exchange: Exchange) -> Any:
    if not _browser(cx, exchange).genuine:
        return None
    return await browsers.password_prepare(cx.db, desk(cx), cx.parts.get(Passwords), exchange.form)


@operation(
    "POST", "/oidc/password", lane=Lane.AUTH, audit="issuer.password_choose", wire=Wire.PAGE, prepare=_password_prepare
)
async def oidc_password(cx: PublicContext, exchange: Exchange) -> Raw:
    """Choose a password in place of a temporary one."""
    browser = _browser(cx, exchange)
    return _shown(
        cx,
        browser,
        await browsers.password_choose(cx.tx, desk(cx), browser, exchange.query, exchange.form, cx.prepared),
    )


@operation("GET", "/oidc/device", lane=Lane.AUTH, wire=Wire.PAGE)
async def oidc_device(cx: PublicContext, exchange: Exchange) -> Raw:
    """Where a person enters the code a device shows, or allows the device whose code the address brings."""
    browser = _browser(cx, exchange)
    return _shown(cx, browser, await devices.device_page(cx.tx, desk(cx), browser, exchange.query))


@operation("POST", "/oidc/device", lane=Lane.AUTH, audit="issuer.device_answer", wire=Wire.PAGE)
async def oidc_device_answer(cx: PublicContext, exchange: Exchange) -> Raw:
    """Look at a device's code, allow or deny it."""
    browser = _browser(cx, exchange)
    return _shown(cx, browser, await devices.device_answer(cx.tx, desk(cx), browser, exchange.form))


@operation("GET", "/oidc/logout", lane=Lane.DEFAULT, wire=Wire.PAGE, transaction=False)
async def oidc_logout(cx: PublicContext, exchange: Exchange) -> Raw:
    """Log the browser out (OpenID Connect RP-Initiated Logout)."""
    browser = _browser(cx, exchange)
    return await _visited(
        cx, browser, "logout", lambda tx: browsers.logout(tx, desk(cx), browser, exchange.query, confirmed=False)
    )


@operation("POST", "/oidc/logout", lane=Lane.AUTH, audit="issuer.logout", wire=Wire.PAGE)
async def oidc_logout_post(cx: PublicContext, exchange: Exchange) -> Raw:
    """The same for clients that post, and for people who agreed."""
    browser = _browser(cx, exchange)
    return _shown(
        cx,
        browser,
        await browsers.logout(cx.tx, desk(cx), browser, {**exchange.query, **exchange.form}, confirmed=browser.genuine),
    )


# ── logins and keys, in the API ──────────────────────────────────────────────────────────────────────────────────────


async def _change_prepare(cx: UserContext, wanted: PasswordChange) -> service.PasswordChanging:
    return await service.password_change_prepare(
        cx.db,
        desk(cx),
        cx.parts.get(Passwords),
        cx.actor,
        current=wanted.current_password,
        wanted=wanted.new_password,
    )


@operation(
    "POST",
    "/users/me/password",
    permission=P.SELF,
    lane=Lane.AUTH,
    audit="issuer.password_change",
    prepare=_change_prepare,
    errors=(Code.PASSWORD_REFUSED, Code.PASSWORD_WRONG, Code.PASSWORD_ELSEWHERE),
)
async def password_change(cx: UserContext, wanted: PasswordChange) -> Done:
    """Change your password at the built-in issuer. Your other sessions and tokens end."""
    await service.password_change(cx.tx, cx.prepared)
    cx.subject_id = cx.prepared.account.id
    return Done()


@operation("GET", "/platform/issuer/accounts", permission=P.USERS_READ, lane=Lane.ADMIN)
async def issuer_account_list(cx: PlatformContext, query: IssuerAccountQuery) -> Page[IssuerAccountView]:
    """Logins of the built-in issuer."""
    position = cx.cursor_position(query.cursor)
    found = await accounts.account_list(
        cx.tx, after=UUID(position[0]) if position else NIL, email=query.email, limit=query.limit + 1
    )
    more = cx.next_cursor(found[query.limit - 1].id) if len(found) > query.limit else None
    return Page(items=[_account_view(account) for account in found[: query.limit]], next_cursor=more)


async def _create_prepare(cx: PlatformContext, wanted: IssuerAccountCreate) -> tuple[str, str]:
    return await accounts.temporary_password(cx.parts.get(Passwords))


@operation(
    "POST",
    "/platform/issuer/accounts",
    permission=P.USERS_MANAGE,
    lane=Lane.ADMIN,
    audit="issuer.account_create",
    status=201,
    prepare=_create_prepare,
    errors=(Code.ISSUER_ACCOUNT_EXISTS,),
)
async def issuer_account_create(cx: PlatformContext, wanted: IssuerAccountCreate) -> IssuerAccountOpened:
    """Open a login at the built-in issuer. Its temporary password is shown once and works once."""
    password, hashed = cx.prepared
    account = await accounts.account_create(cx.tx, email=wanted.email, name=wanted.name, password_hash=hashed)
    return IssuerAccountOpened(id=account.id, email=account.email, temporary_password=password)


async def _reset_prepare(cx: PlatformContext, account_id: UUID, wanted: IssuerAccountPasswordReset) -> tuple[str, str]:
    return await accounts.temporary_password(cx.parts.get(Passwords))


@operation(
    "POST",
    "/platform/issuer/accounts/{account_id}/password-reset",
    permission=P.USERS_MANAGE,
    lane=Lane.ADMIN,
    audit="issuer.password_reset",
    prepare=_reset_prepare,
    errors=(Code.ISSUER_ACCOUNT_MISSING,),
)
async def issuer_account_password_reset(
    cx: PlatformContext, account_id: UUID, wanted: IssuerAccountPasswordReset
) -> IssuerAccountOpened:
    """Give a login a temporary password, shown once; all its sessions and tokens end."""
    password, hashed = cx.prepared
    account = await service.password_reset(cx.tx, account_id, password_hash=hashed)
    return IssuerAccountOpened(id=account.id, email=account.email, temporary_password=password)


@operation("GET", "/platform/issuer/keys", permission=P.PLATFORM_READ, lane=Lane.ADMIN)
async def issuer_key_list(cx: PlatformContext) -> IssuerKeyList:
    """The built-in issuer's signing keys, newest first."""
    return _key_list(await service.keys_list(cx.tx, cx.parts.get(SigningKeys)))


@operation(
    "POST", "/platform/issuer/keys/rotate", permission=P.PLATFORM_MANAGE, lane=Lane.ADMIN, audit="issuer.key_rotate"
)
async def issuer_key_rotate(cx: PlatformContext, wanted: IssuerKeyRotate) -> IssuerKeyList:
    """Make a new signing key: published now, signing in a few minutes; what the old one signed counts for a day more.

    With `distrust_old` the new one signs at once and nothing the old ones signed counts any more."""
    return _key_list(await service.keys_rotate(cx.tx, cx.parts.get(SigningKeys), distrust_old=wanted.distrust_old))


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _token(cx: Context, form: dict[str, str]) -> Any:
    cx.audit_details = {"client_id": form.get("client_id", "")[:100], "grant_type": form.get("grant_type", "")[:100]}
    issued, subject = await tokens.token_exchange(cx.tx, desk(cx), cx.headers, form)
    cx.subject_id = UUID(subject)
    return issued


async def _revoke(cx: Context, form: dict[str, str]) -> Any:
    cx.unaudited = not await tokens.token_revoke(cx.tx, desk(cx), cx.headers, form)
    return {}


async def _spoken(cx: Context, verb: Awaitable[Any]) -> Raw:
    """What a verb answers, or its refusal in the RFCs' words."""
    try:
        return _json(await verb)
    except OAuthRefusal as refusal:
        cx.unaudited = not refusal.happened
        cx.audit_details = {**cx.audit_details, "refused": refusal.happened}
        challenge = refusal.challenge(REALM)
        headers = (("www-authenticate", challenge),) if challenge else ()
        return _json(refusal.body(), status=refusal.status, headers=headers)


def _json(value: Any, *, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Raw:
    return Raw(_ENCODER.encode(value), "application/json", status, (("pragma", "no-cache"), *headers))


def _browser(cx: Context, exchange: Exchange) -> Browser:
    issuer, sent = cx.parts.get(Issuer), exchange.cookies
    known = sent.get(cookies.form_name(issuer), "")
    made = "" if forgery.usable(known) else forgery.new_cookie()
    hosts = frozenset({issuer.host, cx.headers.get(b"host", b"").decode("latin-1")})
    return Browser(
        session_cookie=sent.get(cookies.session_name(issuer), ""),
        form_token=forgery.form_token(made or known),
        new_form_cookie=made,
        genuine=forgery.genuine(known, exchange.form.get("form_token", ""), cx.headers, hosts),
    )


def _shown(cx: Context, browser: Browser, outcome: Outcome) -> Raw:
    """A page or a redirect, with its cookies; tells the audit log what happened, if anything did."""
    cx.unaudited = not outcome.happened
    cx.audit_details = {"happened": outcome.happened}
    cx.subject_id = UUID(outcome.subject) if outcome.subject else None
    headers = [*_set_cookies(desk(cx), browser, outcome), *PAGE_HEADERS]
    if outcome.retry_after:
        headers.append(("retry-after", str(outcome.retry_after)))
    if outcome.redirect:
        return Raw(b"", status=303, headers=(("location", outcome.redirect), *headers))
    headers.append(("content-security-policy", pages.policy(outcome.form_targets)))
    return Raw(outcome.html.encode(), status=outcome.status, headers=tuple(headers))


async def _visited(cx: Context, browser: Browser, what: str, verb: Callable[[Tx], Awaitable[Outcome]]) -> Raw:
    """A GET that may change something, as these protocols have it: in a transaction of its own, audited if it did."""
    async with cx.db.unfinished(Sight(), service.SYSTEM) as tx:
        shown = _shown(cx, browser, await verb(tx))
        await finish(tx, None if cx.unaudited else _visit(cx, what, shown.status))
    return shown


def _visit(cx: Context, what: str, status: int) -> AuditEntry:
    return AuditEntry(
        id=new_id(),
        action=f"issuer.{what}",
        operation=f"oidc_{what}",
        actor_kind=cx.actor.kind,
        actor_id=cx.actor.id,
        actor_name=cx.actor.email or cx.actor.name,
        org_id=None,
        project_id=None,
        subject_id=cx.subject_id,
        correlation_id=cx.correlation_id,
        client_ip=cx.client_ip,
        details=_ENCODER.encode({**cx.audit_details, "status": status}).decode(),
    )


def _set_cookies(at: Desk, browser: Browser, outcome: Outcome) -> list[tuple[str, str]]:
    wanted = []
    if browser.new_form_cookie and outcome.html:
        wanted.append((cookies.form_name(at.issuer), browser.new_form_cookie, cookies.FORM_SECONDS))
    if outcome.session_cookie is not None:
        seconds = at.session_seconds if outcome.session_cookie else 0
        wanted.append((cookies.session_name(at.issuer), outcome.session_cookie, seconds))
    return [("set-cookie", cookies.cookie(at.issuer, name, value, seconds=seconds)) for name, value, seconds in wanted]


def _account_view(account: Account) -> IssuerAccountView:
    return IssuerAccountView(
        id=account.id,
        email=account.email,
        name=account.name,
        must_change_password=account.must_change,
        created_at=account.created_at,
        password_changed_at=account.password_changed_at,
        last_login_at=account.last_login_at,
    )


def _key_list(keys: list[PublicKey]) -> IssuerKeyList:
    return IssuerKeyList(
        keys=[
            IssuerKeyView(
                key_id=key.key_id,
                algorithm=key.jwk["alg"],
                signs_from=key.signs_from,
                signs_until=key.signs_until,
                valid_until=key.valid_until,
            )
            for key in keys
        ]
    )
