"""Where a login may send the browser back to: below our public URL, or to a program on the user's own machine."""

from ipaddress import ip_address
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def redirect_allowed(uri: str, public_url: str) -> bool:
    """RFC 8252: a loopback address with any port, so that a CLI can wait for the browser; otherwise our own origin."""
    try:
        parts, ours = urlsplit(uri), urlsplit(public_url)
        origin, our_origin = _origin(uri), _origin(public_url)
    except ValueError:
        return False
    if parts.username is not None or parts.password is not None or "\\" in uri or "#" in uri:
        return False
    if origin == our_origin:
        return (parts.path or "/").startswith(ours.path.rstrip("/") + "/") and ".." not in parts.path.split("/")
    return parts.scheme == "http" and _is_loopback(parts.hostname or "")


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
