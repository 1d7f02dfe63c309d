"""Verbs of the device flow.

Always holds: a person who is logged in looks at the code and the asking program before he allows; what was allowed is
taken once; used again, what it gave is ended."""

from collections.abc import Mapping
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.issuer import pages, user_codes
from gpuaas.domains.issuer.authorization import bad_scope, granted_scopes
from gpuaas.domains.issuer.browser import service as browsers
from gpuaas.domains.issuer.browser.models import Browser, Outcome
from gpuaas.domains.issuer.clients import Client, Grant
from gpuaas.domains.issuer.devices import store
from gpuaas.domains.issuer.devices.models import DeviceAuthorization, DeviceCode
from gpuaas.domains.issuer.devices.states import DeviceState
from gpuaas.domains.issuer.grants import service as grants
from gpuaas.domains.issuer.grants.models import Family
from gpuaas.domains.issuer.models import Desk
from gpuaas.domains.issuer.oauth import Error, OAuthRefusal
from gpuaas.domains.issuer.sessions import service as sessions
from gpuaas.domains.issuer.sessions.models import Session
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Unavailable
from gpuaas.kit.secrets import new_token, token_hash

INTERVAL_SECONDS = 5
MAX_DEVICE_CODE = 200
_TRIES = 5
WRONG_CODE = "There is no such code waiting. Compare it with your device, or start there again."


async def device_begin(
    tx: Tx, desk: Desk, client: Client, *, scope: str | None, requested_from: str
) -> DeviceAuthorization:
    if Grant.DEVICE not in client.grants:
        raise OAuthRefusal(Error.UNAUTHORIZED_CLIENT, "this client may not use device codes")
    if scope is not None and bad_scope(scope):
        raise OAuthRefusal(Error.INVALID_SCOPE, "scope must be words separated by one space")
    scopes = granted_scopes(scope or "openid profile email offline_access")
    seconds = desk.policy.number("issuer.device_code_seconds")
    device_code = new_token()
    user_code = await _add(tx, client, device_code, scopes, requested_from, seconds)
    page, shown = f"{desk.issuer.url}/device", user_codes.shown(user_code)
    return DeviceAuthorization(
        device_code=device_code,
        user_code=shown,
        verification_uri=page,
        verification_uri_complete=f"{page}?user_code={shown}",
        expires_in=seconds,
        interval=INTERVAL_SECONDS,
    )


async def _add(tx: Tx, client: Client, device_code: str, scopes: list[str], requested_from: str, seconds: int) -> str:
    for _ in range(_TRIES):
        user_code = user_codes.new()
        if await store.add(
            tx,
            token_hash(device_code),
            user_code,
            client_id=client.id,
            scopes=scopes,
            requested_from=requested_from,
            interval_seconds=INTERVAL_SECONDS,
            seconds=seconds,
        ):
            return user_code
    raise Unavailable(Code.OVERLOADED, "Too many device logins are waiting. Try again.", retry_after=5)


async def device_redeem(tx: Tx, desk: Desk, client: Client, device_code: str) -> Family:
    """The device asks whether it was allowed; if so, this is the login it gets, once."""
    key = token_hash(device_code)
    too_soon = await store.poll(tx, key, client.id) if len(device_code) <= MAX_DEVICE_CODE else None
    if too_soon is None:
        raise OAuthRefusal(Error.INVALID_GRANT, "the device code is not known or belongs to another client")
    found = await store.by_hash(tx, key)
    if found is None or found.state is DeviceState.USED:
        if found is not None and found.family_id is not None:
            await grants.family_end(tx, found.family_id, "device code used twice")
        raise OAuthRefusal(
            Error.INVALID_GRANT,
            "the device code was used before; what it gave is revoked",
            happened="device code used twice",
        )
    _require_allowed(found, too_soon=too_soon)
    return await _take(tx, desk, client, key, found)


def _require_allowed(found: DeviceCode, *, too_soon: bool) -> None:
    if found.expired:
        raise OAuthRefusal(Error.EXPIRED_TOKEN, "the device code has expired; start again")
    if found.state is DeviceState.DENIED:
        raise OAuthRefusal(Error.ACCESS_DENIED, "the login was denied")
    if too_soon:
        raise OAuthRefusal(Error.SLOW_DOWN, f"ask every {found.interval_seconds} seconds")
    if found.state is DeviceState.PENDING:
        raise OAuthRefusal(Error.AUTHORIZATION_PENDING, "nobody has entered the code yet")


async def _take(tx: Tx, desk: Desk, client: Client, key: bytes, found: DeviceCode) -> Family:
    if found.account_id is None or found.auth_time is None:
        raise OAuthRefusal(Error.INVALID_GRANT, "the device code was not allowed by anybody")
    family = await grants.family_begin(
        tx, desk, client, account_id=found.account_id, session_id=None, scopes=found.scopes, auth_time=found.auth_time
    )
    if await store.move_by_device(tx, key, to=DeviceState.USED, family_id=family.id) is None:
        raise OAuthRefusal(Error.INVALID_GRANT, "the device code was used a moment ago")
    return family


async def device_page(tx: Tx, desk: Desk, browser: Browser, sent: Mapping[str, str]) -> Outcome:
    """Where a person enters the code; a login first, if need be. An address that brings its code asks at once whether
    the device is allowed."""
    session = await sessions.session_get(tx, browser.session_cookie)
    typed = sent.get("user_code", "")[:40]
    if session is None:
        return browsers.login_page(desk, browser, {"flow": "device", "user_code": typed})
    if not typed:
        return await _entry(tx, desk, browser, session, "")
    code = user_codes.read(typed)
    waiting = await store.pending(tx, code) if code is not None else None
    if waiting is None:
        return await _entry(tx, desk, browser, session, "", WRONG_CODE)
    return await _question(tx, desk, browser, session, waiting)


async def _entry(tx: Tx, desk: Desk, browser: Browser, session: Session, typed: str, alert: str = "") -> Outcome:
    account = await browsers.account_of(tx, session)
    return Outcome(
        html=pages.device_entry(
            action=f"{desk.issuer.path}/device",
            token=browser.form_token,
            user_code=typed,
            email=account.email,
            alert=alert,
        ),
        status=400 if alert else 200,
    )


async def device_answer(tx: Tx, desk: Desk, browser: Browser, form: Mapping[str, str]) -> Outcome:
    """The code was entered, or the question about it answered."""
    session = await sessions.session_get(tx, browser.session_cookie)
    typed = form.get("user_code", "")[:40]
    if session is None:
        return browsers.login_page(desk, browser, {"flow": "device", "user_code": typed})
    if not browser.genuine:
        return await _entry(tx, desk, browser, session, typed, browsers.STALE_FORM)
    code = user_codes.read(typed)
    waiting = await store.pending(tx, code) if code is not None else None
    if code is None or waiting is None:
        return await _entry(tx, desk, browser, session, "", WRONG_CODE)
    answer = form.get("answer", "")
    if answer in ("allow", "deny"):
        return await _decide(tx, code, session, allow=answer == "allow")
    return await _question(tx, desk, browser, session, waiting)


async def _question(tx: Tx, desk: Desk, browser: Browser, session: Session, waiting: DeviceCode) -> Outcome:
    account = await browsers.account_of(tx, session)
    return Outcome(
        html=pages.device_confirm(
            action=f"{desk.issuer.path}/device",
            token=browser.form_token,
            user_code=user_codes.shown(waiting.user_code),
            client=desk.issuer.clients[waiting.client_id].name,
            requested_from=waiting.requested_from,
            email=account.email,
        )
    )


async def _decide(tx: Tx, code: str, session: Session, *, allow: bool) -> Outcome:
    to = DeviceState.APPROVED if allow else DeviceState.DENIED
    if (
        not await sessions.session_hold(tx, session.id)
        or await store.move_by_person(tx, code, to=to, session=session) is None
    ):
        return Outcome(html=pages.message("Too late", WRONG_CODE), status=400)
    said = (
        ("Your device is connected", "You can close this window and go on there.")
        if allow
        else ("The login was denied", "Nothing was given to the device. You can close this window.")
    )
    return Outcome(
        html=pages.message(*said),
        happened="device allowed" if allow else "device denied",
        subject=str(session.account_id),
    )


async def approvals_end(tx: Tx, account_id: UUID) -> None:
    """What the account allowed and no device has taken yet is denied."""
    await store.take_back(tx, account_id)


async def devices_prune(tx: Tx) -> int:
    return await store.prune(tx)
