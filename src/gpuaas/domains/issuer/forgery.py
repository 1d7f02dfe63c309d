"""Forms are ours: a page's form carries a token derived from a cookie that only this browser has, and the browser says
that the form was sent from this site. A form filled in by another site fails both."""

import base64
import hashlib
import hmac
from collections.abc import Mapping

from gpuaas.kit.secrets import new_token

_MIN_COOKIE = 40


def new_cookie() -> str:
    return new_token()


def usable(cookie: str) -> bool:
    return _MIN_COOKIE <= len(cookie) <= 2 * _MIN_COOKIE


def form_token(cookie: str) -> str:
    """The cookie itself is not readable by scripts; its hash in the form proves that the form was made for it."""
    digest = hashlib.sha256(b"issuer-form:" + cookie.encode("utf-8", "replace")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def genuine(cookie: str, token: str, headers: Mapping[bytes, bytes], hosts: frozenset[str]) -> bool:
    if not usable(cookie) or not hmac.compare_digest(form_token(cookie).encode(), token.encode("utf-8", "replace")):
        return False
    site = headers.get(b"sec-fetch-site")
    if site is not None and site not in (b"same-origin", b"none"):
        return False
    sent_from = headers.get(b"origin")
    return sent_from is None or _host(sent_from.decode("latin-1")) in hosts


def _host(origin: str) -> str:
    return origin.partition("://")[2]
