"""`/go/…`: where the links in emails lead. The link is the authority, for exactly one thing; no login is asked for."""

from typing import Annotated

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.notifications.links import pages, service
from gpuaas.domains.notifications.links.models import Page
from gpuaas.infra.http.context import PublicContext
from gpuaas.infra.http.operation import Exchange, Lane, Raw, Wire, operation

Token = Annotated[str, msgspec.Meta(max_length=200)]
_PATH = "/go/{token}"
_WHAT_ACTIONS_SAY = (
    Code.ALLOCATION_MISSING,
    Code.ALLOCATION_NOT_ACTIVE,
    Code.ALLOCATION_LIFETIME,
    Code.PAYMENT_AMOUNT_REFUSED,
    Code.PAYMENT_CURRENCY_REFUSED,
    Code.PAYMENT_MISSING,
    Code.PAYMENT_PROVIDER_AWAY,
    Code.PAYMENT_PROVIDER_REFUSED,
    Code.PAYMENTS_NOT_SET_UP,
    Code.IDEMPOTENCY_KEY_REUSED,
)


@operation("GET", _PATH, lane=Lane.DEFAULT, wire=Wire.PAGE, transaction=False, tag="links")
async def link_look(cx: PublicContext, token: Token, exchange: Exchange) -> Raw:
    """Show what a link from an email will do, with a button. Changes nothing."""
    return _raw(await service.link_look(cx, token))


async def _prepare(cx: PublicContext, token: Token, exchange: Exchange) -> object:
    return await service.link_prepare(cx, token)


@operation(
    "POST",
    _PATH,
    lane=Lane.AUTH,
    audit="link.use",
    wire=Wire.PAGE,
    prepare=_prepare,
    tag="links",
    errors=_WHAT_ACTIONS_SAY,
)
async def link_use(cx: PublicContext, token: Token, exchange: Exchange) -> Raw:
    """Do what the link is for, once."""
    shown = await service.link_use(cx, token)
    _note(cx, shown)
    return _raw(shown)


def _note(cx: PublicContext, page: Page) -> None:
    """The audit log names whom the link was made for, and what it did; or nothing, if nothing was done."""
    cx.unaudited = page.done_by is None
    if page.done_by is not None and page.link is not None:
        cx.actor, cx.subject_id = page.done_by, page.link.subject_id or page.link.id
        cx.audit_details = {"link_id": page.link.id, "action": page.link.action, "outcome": page.title}


def _raw(page: Page) -> Raw:
    if page.redirect:
        return Raw(b"", status=303, headers=(("location", page.redirect), ("referrer-policy", "no-referrer")))
    return Raw(pages.html(page).encode(), status=page.status, headers=pages.headers(page))
