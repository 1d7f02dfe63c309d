"""Operations on mail, for those who operate an installation."""

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.notifications import EmailQuery, EmailView
from gpuaas.contracts.permissions import P
from gpuaas.domains.notifications.mail import service
from gpuaas.domains.notifications.mail.models import Email
from gpuaas.infra.http.context import PlatformContext
from gpuaas.infra.http.listing import before, page
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import EmailId


@operation("GET", "/ops/emails", permission=P.PLATFORM_READ, lane=Lane.ADMIN, tag="notifications")
async def email_list(cx: PlatformContext, query: EmailQuery) -> Page[EmailView]:
    """List mail, the newest first: what waits, was sent, or failed and why."""
    rows = await service.email_list(cx.tx, before=before(cx, query), state=query.state, limit=query.limit + 1)
    return page(cx, query, rows, view)


@operation(
    "POST",
    "/ops/emails/{email_id}/retry",
    permission=P.PLATFORM_MANAGE,
    lane=Lane.ADMIN,
    audit="email.retry",
    tag="notifications",
    errors=(Code.EMAIL_MISSING, Code.STATE_MOVE_REFUSED),
)
async def email_retry(cx: PlatformContext, email_id: EmailId) -> EmailView:
    """Have an email tried again at once, after the cause was mended."""
    return view(await service.email_retry(cx.tx, email_id))


def view(email: Email) -> EmailView:
    return msgspec.convert(email, EmailView, from_attributes=True)
