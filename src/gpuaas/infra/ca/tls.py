"""TLS of the agents' listener: mutual, 1.2 or newer, with a certificate and authorities that change while it runs.

Always holds: no handshake ends without a certificate of the peer that one of the current authorities vouches for; a
change touches new handshakes only, never a connection that is open; no session is resumed, so every connection proves
its certificate anew."""

import os
import ssl

_OPTIONS = ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION


class ChangingTls:
    """`context` is what the listener is given, once. Each handshake goes on with what was put in last."""

    def __init__(self) -> None:
        self.context = _context()
        self.context.sni_callback = self._continue  # called without a server name, too
        self._current: ssl.SSLContext | None = None

    def use(self, chain: str, key: bytes, authorities: str) -> None:
        """From now on: this certificate with its chain and key, and these authorities of peers. All in PEM."""
        changed = _context()
        _load(changed, chain.encode() + key)
        changed.load_verify_locations(cadata=authorities)
        self._current = changed

    def _continue(self, tls: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _base: ssl.SSLContext) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        tls.context = self._current
        return None


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.options |= _OPTIONS
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    """`ssl` reads keys from files only; this one is in memory and has no name."""
    file = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        os.write(file, pem)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
