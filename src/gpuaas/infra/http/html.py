"""Pages served by the API itself: one file each, styled and scripted inline, allowed by hash and by nothing else.

Always holds: a page refers to nothing outside, runs no script but its own, and cannot be framed."""

import base64
import hashlib
from html import escape
from pathlib import Path

import msgspec

_ASSETS = Path(__file__).parent / "assets"


class HtmlPage(msgspec.Struct, frozen=True):
    """A page, and the headers without which it must not be sent."""

    body: bytes
    headers: tuple[tuple[bytes, bytes], ...]


def html_page(title: str, content: str, *, style: str, script: str = "", forms: str = "'none'") -> HtmlPage:
    """A whole page. `style` and `script` name files beside this one; `content` is HTML already; `forms` are the places
    its forms may lead to, redirects included."""
    css, js = _asset(style), _asset(script) if script else ""
    body = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n"
        f'<link rel="icon" href="{_ICON}">\n'
        f"<style>{css}</style>\n</head>\n<body>\n{content}\n"
        + (f"<script>{js}</script>\n" if js else "")
        + "</body>\n</html>\n"
    )
    policy = (
        f"default-src 'none'; style-src '{_hash(css)}'; "
        + (f"script-src '{_hash(js)}'; connect-src 'self'; " if js else "")
        + "img-src data:; base-uri 'none'; form-action "
        + forms
        + "; frame-ancestors 'none'"
    )
    # Without any referrer a browser says of our own form that it comes from nowhere (`Origin: null`).
    referrer = b"no-referrer" if forms == "'none'" else b"same-origin"
    return HtmlPage(
        body.encode(),
        (
            (b"content-security-policy", policy.encode()),
            (b"x-frame-options", b"DENY"),
            (b"referrer-policy", referrer),
        ),
    )


def text(value: object) -> str:
    return escape(str(value))


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' "
    "height='16' rx='4' fill='%232f6f4f'/%3E%3Cpath d='M4 5h8v6H4zM2.5 6.5h1m-1 3h1m9-3h1m-1 3h1' fill='none' "
    "stroke='%23fff'/%3E%3C/svg%3E"
)
