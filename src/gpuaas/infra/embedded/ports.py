"""Loopback TCP ports for servers nobody gave a port to."""

from __future__ import annotations

import errno
import random
import socket

from gpuaas.infra.embedded.errors import EmbeddedError

LOOPBACK = "127.0.0.1"

# Below the range Linux takes outgoing connections' ports from, so that a server that
# restarts finds its port as it left it.
_LOWEST, _HIGHEST = 20_000, 32_000
_TRIES = 200


def port_is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether nobody listens there now; an error when we may not or cannot listen at all."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def free_port(*, preferred: int | None = None, taken: frozenset[int] = frozenset()) -> int:
    """A port nobody listens on: the preferred one if it is free, else one at random outside `taken`."""
    if preferred is not None and preferred not in taken and port_is_free(preferred):
        return preferred
    for _ in range(_TRIES):
        port = random.randint(_LOWEST, _HIGHEST)  # noqa: S311 - a port is no secret
        if port not in taken and port_is_free(port):
            return port
    raise EmbeddedError(f"no free TCP port between {_LOWEST} and {_HIGHEST} on {LOOPBACK}")
