"""The pages of one-click links, in the look of the login's."""

from html import escape

from gpuaas.domains.issuer import pages
from gpuaas.domains.notifications.links.models import Page
from gpuaas.domains.notifications.plain import plain

_OUT = " https: http://127.0.0.1:* http://localhost:*"
"""Where a payment page may be; a browser checks where a form's answer leads."""


def headers(page: Page) -> tuple[tuple[str, str], ...]:
    policy = pages.policy(_OUT if page.leads_out else "")
    return (
        ("content-security-policy", policy),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
        ("x-robots-tag", "noindex"),
    )


def html(page: Page) -> str:
    title = escape(plain(page.title))
    facts = "".join(f"<dt>{escape(plain(name))}</dt><dd>{escape(plain(value))}</dd>" for name, value in page.facts)
    body = f'<h1>{title}</h1><p role="status">{escape(plain(page.text, 1_000))}</p>'
    if facts:
        body += f"<dl>{facts}</dl>"
    if page.button:
        body += f'<form method="post"><button type="submit" autofocus>{escape(plain(page.button))}</button></form>'
    return pages.page(plain(page.title), body)
