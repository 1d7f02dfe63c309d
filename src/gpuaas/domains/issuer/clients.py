"""The clients of the built-in issuer: our own programs. All are public (they can keep no secret), so all use PKCE and
a redirect address from a fixed list.

Always holds: a redirect address matches as a whole string; only the port of a loopback address is free (RFC 8252)."""

import re
from enum import StrEnum

import msgspec

CLI = "gpuaas-cli"
CONSOLE = "gpuaas-console"
API = "gpuaas-api"
MAX_REDIRECT = 500
_LOOPBACK = re.compile(r"^(http://(?:127\.0\.0\.1|\[::1\])):([1-9]\d{0,4})(/[\w./-]*)$", re.ASCII)
_MAX_PORT = 65_535


class Grant(StrEnum):
    CODE = "authorization_code"
    REFRESH = "refresh_token"
    CLIENT_CREDENTIALS = "client_credentials"
    DEVICE = "urn:ietf:params:oauth:grant-type:device_code"


class Client(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    redirects: frozenset[str]
    """Exact addresses; one without a port on a loopback address allows any port."""
    logout_redirects: frozenset[str] = frozenset()
    grants: frozenset[Grant] = frozenset({Grant.CODE, Grant.REFRESH})

    def may_redirect_to(self, uri: str) -> bool:
        return _listed(uri, self.redirects)

    def may_return_to(self, uri: str) -> bool:
        """After a logout."""
        return _listed(uri, self.logout_redirects)


def _listed(uri: str, allowed: frozenset[str]) -> bool:
    if uri in allowed:
        return True
    found = _LOOPBACK.fullmatch(uri)
    return found is not None and int(found[2]) <= _MAX_PORT and found[1] + found[3] in allowed


def first_party(public_url: str) -> dict[str, Client]:
    """Our own programs, as reached at this address."""
    home = frozenset({public_url, f"{public_url}/"})
    loopback = frozenset({"http://127.0.0.1/callback", "http://[::1]/callback"})
    clients = (
        Client(
            id=CLI,
            name="GPUaaS command line",
            redirects=loopback,
            logout_redirects=loopback,
            grants=frozenset({Grant.CODE, Grant.REFRESH, Grant.DEVICE}),
        ),
        Client(
            id=CONSOLE,
            name="GPUaaS console",
            logout_redirects=home,
            redirects=home | {f"{public_url}/auth/callback", f"{public_url}/console/auth/callback"},
        ),
        Client(
            id=API,
            name="GPUaaS",
            logout_redirects=home | {f"{public_url}/api/v1/auth/logged-out"},
            redirects=home | loopback | {f"{public_url}/api/v1/auth/callback", f"{public_url}/auth/callback"},
        ),
    )
    return {client.id: client for client in clients}


def origin(uri: str) -> str:
    """Scheme, host and port of a redirect address."""
    scheme, _, rest = uri.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"
