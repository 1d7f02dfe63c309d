"""The two ways a person logs in from a terminal: in the browser of this machine (RFC 8252: a listener on the loopback
address takes the answer), and with a device code in a browser elsewhere (RFC 8628)."""

import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from gpuaas.client import oidc
from gpuaas.client.errors import LoginFailed
from gpuaas.client.oidc import DeviceCode, OauthRefused, Proof, Provider, Tokens
from gpuaas.client.session import Session
from gpuaas.kit import clock

BROWSER_SECONDS = 300
MAX_INTERVAL_SECONDS = 60
CALLBACK = "/callback"
_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><meta name=color-scheme content='light dark'>"
    "<title>GPUaaS</title><body style='font:16px/1.5 system-ui;max-width:32rem;margin:20vh auto;padding:0 1rem'>"
    "<h1 style='font-size:1.4rem'>{title}</h1><p>{text}</p></body></html>"
)


class Client:
    """Who asks, at which issuer, for an API at which URL."""

    def __init__(self, url: str, provider: Provider, client_id: str, audience: str) -> None:
        self.url = url
        self.provider = provider
        self.client_id = client_id
        self.audience = audience


def browser_login(client: Client, show: Callable[[str], None], *, seconds: float = BROWSER_SECONDS) -> Session:
    """`show` is given the address to open; the answer comes to the listener."""
    proof = Proof()
    with _Listener(proof.state) as listener:
        redirect_uri = f"http://127.0.0.1:{listener.server_port}{CALLBACK}"
        show(oidc.authorization_url(client.provider, client.client_id, redirect_uri, proof, client.audience))
        answer = listener.wait(seconds)
    code = oidc.code_of(answer, client.provider, proof)
    tokens = oidc.exchange(client.provider, client.client_id, code, redirect_uri, proof, client.audience)
    return _session(client, tokens, proof.nonce)


def device_login(
    client: Client, show: Callable[[DeviceCode], None], *, sleep: Callable[[float], None] = time.sleep
) -> Session:
    """`show` is given the code and where to enter it; then we ask until it was entered."""
    device = oidc.device_authorization(client.provider, client.client_id, client.audience)
    show(device)
    interval = float(device.interval)
    until = clock.monotonic() + device.expires_in
    while clock.monotonic() < until:
        sleep(interval)
        try:
            tokens = oidc.device_exchange(client.provider, client.client_id, device.device_code, client.audience)
        except OauthRefused as refused:
            if refused.error == "slow_down":
                interval = min(interval + 5, MAX_INTERVAL_SECONDS)
            elif refused.error == "expired_token":
                break
            elif refused.error == "access_denied":
                raise LoginFailed("The login was refused in the browser.") from refused
            elif refused.error != "authorization_pending":
                raise
        else:
            return _session(client, tokens, None)
    raise LoginFailed("The code was not entered in time. Run the command again for a new one.")


def _session(client: Client, tokens: Tokens, nonce: str | None) -> Session:
    claims = oidc.identity_of(client.provider, client.client_id, tokens, nonce)
    return Session(
        url=client.url,
        issuer=client.provider.issuer,
        client_id=client.client_id,
        audience=client.audience,
        token_endpoint=client.provider.token_endpoint,
        revocation_endpoint=client.provider.revocation_endpoint,
        access_token=tokens.access_token,
        expires_at=clock.epoch_s() + tokens.expires_in,
        refresh_token=tokens.refresh_token,
        email=str(claims.get("email", "")),
        name=str(claims.get("name", "")),
    )


class _Listener(HTTPServer):
    """Takes one answer on the loopback address. Requests without our state (a scan, a favicon) do not end the wait."""

    def __init__(self, state: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.expected_state = state
        self.answer: dict[str, str] | None = None

    def wait(self, seconds: float) -> dict[str, str]:
        until = clock.monotonic() + seconds
        while self.answer is None:
            left = until - clock.monotonic()
            if left <= 0:
                raise LoginFailed("Nobody logged in in time. Run the command again, or use gpuaas login --device.")
            self.timeout = min(left, 1.0)
            self.handle_request()
        return self.answer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is not worth a stack trace on the user's screen."""


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    timeout = 5

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, max_num_fields=20))
        if parts.path != CALLBACK or query.get("state") != self.server.expected_state:
            self._say(404, "Not found", "This address only takes the answer of a login.")
            return
        self.server.answer = query
        if "error" in query:
            self._say(200, "You are not logged in", "The terminal says why. You can close this window.")
        else:
            self._say(200, "You are logged in", "Go back to the terminal. You can close this window.")

    def _say(self, status: int, title: str, text: str) -> None:
        body = _PAGE.format(title=title, text=text).encode()
        self.send_response(status)
        for name, value in (
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """The address holds a code; it is not logged."""
