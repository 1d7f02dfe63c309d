"""An email as bytes: text and HTML beside each other, both with the same words.

Always holds: the same email is the same bytes each time, with the same Message-ID, so whoever gets it twice can tell;
nothing in it ends a header or is read as HTML; it loads nothing from anywhere."""

from collections.abc import Callable
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from html import escape
from uuid import UUID

import msgspec

from gpuaas.contracts.http.notifications import Severity
from gpuaas.domains.notifications.mail.models import Content, Email
from gpuaas.domains.notifications.plain import plain

NAME = "GPUaaS"
_COLOURS = {Severity.INFO: "#0b6b3a", Severity.WARNING: "#8a6100", Severity.CRITICAL: "#a3131f"}
_FONT = "font:16px/1.5 -apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
# A header with a long address stays one line: the library would cut it in pieces that no mail program puts together.
_UNFOLDED = SMTP.clone(cte_type="7bit", max_line_length=900)
Urls = Callable[[UUID], str]


def render(email: Email, *, sender: str, url: Urls, public_url: str) -> bytes:
    content = msgspec.json.decode(email.content, type=Content)
    message = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
    message["From"] = Address(NAME, addr_spec=sender)
    message["To"] = Address(addr_spec=email.to_address)
    message["Subject"] = plain(content.title)
    message["Date"] = email.created_at
    message["Message-ID"] = message_id(email.id, sender)
    message["Auto-Submitted"] = "auto-generated"
    message["X-GPUaaS-Kind"] = plain(email.kind)
    if content.mute_id is not None:
        message["List-Unsubscribe"] = f"<{url(content.mute_id)}>"
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message.set_content(text_of(content, url, public_url), cte="quoted-printable")
    message.add_alternative(html_of(content, url, public_url), subtype="html", cte="quoted-printable")
    message.set_boundary(f"=_{email.id.hex}")
    return message.as_bytes(policy=_UNFOLDED)


def message_id(email_id: UUID, sender: str) -> str:
    return f"<{email_id}@{sender.rpartition('@')[2]}>"


def text_of(content: Content, url: Urls, public_url: str) -> str:
    lines = [f"Hello {plain(content.name)}," if content.name else "Hello,", "", plain(content.title), ""]
    lines += [plain(sentence, 1_000) for sentence in content.sentences]
    if content.facts:
        lines += ["", *(f"  {plain(name)}: {plain(value)}" for name, value in content.facts)]
    if content.link_id is not None:
        lines += ["", f"{plain(content.label)}:", f"  {url(content.link_id)}"]
        lines += ["  This link is for you alone and works once. It shows what it does before it does it."]
    lines += ["", "-- ", f"{NAME} at {public_url}", _why(content)]
    if content.mute_id is not None:
        lines += [f"No more email like this: {url(content.mute_id)}"]
    return "\n".join(lines) + "\n"


def html_of(content: Content, url: Urls, public_url: str) -> str:
    colour = _COLOURS[content.severity]
    hello = f"Hello {_html(content.name)}," if content.name else "Hello,"
    sentences = "".join(f'<p style="margin:0 0 12px">{_html(one, 1_000)}</p>' for one in content.sentences)
    facts = "".join(
        f'<tr><td style="padding:4px 16px 4px 0;color:#5b6875;vertical-align:top">{_html(name)}</td>'
        f'<td style="padding:4px 0">{_html(value)}</td></tr>'
        for name, value in content.facts
    )
    table = (
        f'<table role="presentation" style="border-collapse:collapse;margin:16px 0">{facts}</table>' if facts else ""
    )
    button = "" if content.link_id is None else _button(content.label, url(content.link_id), colour)
    mute = ""
    if content.mute_id is not None:
        mute = f' <a href="{escape(url(content.mute_id))}" style="color:#5b6875">No more email like this.</a>'
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_html(content.title)}</title></head>"
        f'<body style="margin:0;padding:24px;background:#f3f5f7;color:#17212b;{_FONT}">'
        '<div style="max-width:560px;margin:0 auto;background:#ffffff;border:1px solid #c6ced6;border-radius:12px;'
        f'border-top:4px solid {colour};padding:28px">'
        f'<p style="margin:0 0 20px;font-weight:700">{NAME}</p><p style="margin:0 0 12px">{hello}</p>'
        f'<h1 style="margin:0 0 12px;font-size:20px;line-height:1.3">{_html(content.title)}</h1>'
        f"{sentences}{table}{button}</div>"
        '<p style="max-width:560px;margin:16px auto 0;font-size:13px;color:#5b6875">'
        f'{NAME} at <a href="{escape(public_url)}" style="color:#5b6875">{escape(public_url)}</a>. '
        f"{escape(_why(content))}{mute}</p></body></html>\n"
    )


def _button(label: str, link: str, colour: str) -> str:
    return (
        f'<p style="margin:20px 0 8px"><a href="{escape(link)}" style="display:inline-block;background:{colour};'
        'color:#ffffff;text-decoration:none;font-weight:600;padding:11px 18px;border-radius:8px">'
        f"{_html(label)}</a></p>"
        '<p style="margin:0;font-size:13px;color:#5b6875">This link is for you alone and works once. It shows what it '
        "does before it does it.</p>"
    )


def _why(content: Content) -> str:
    if content.mute_id is None:
        return "You get this because you answer for the organisation's money; it cannot be switched off."
    return "What you get by email is yours to choose: gpuaas notifications preferences."


def _html(text: str, limit: int = 200) -> str:
    return escape(plain(text, limit))
