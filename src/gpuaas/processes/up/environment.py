"""The settings each program is started with, and the port the API gets."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass

from gpuaas.infra.embedded.ports import LOOPBACK, port_is_free
from gpuaas.processes.up.errors import UpError
from gpuaas.processes.up.options import DEFAULT_PORT
from gpuaas.processes.up.servers import ServerUrls

_PORTS_TRIED = 100
_EVERYWHERE = {"0.0.0.0": LOOPBACK, "::": "::1", "": LOOPBACK}  # noqa: S104 - recognised, not bound


@dataclass(frozen=True)
class Address:
    """Where the API listens and how it is reached from this machine."""

    host: str
    port: int
    public_url: str
    remark: str = ""

    @property
    def local_url(self) -> str:
        """For our own probes, whatever the public name is."""
        host = _EVERYWHERE.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def choose_address(environ: Mapping[str, str], asked_port: int | None) -> Address:
    """The asked port or a clear refusal; without one the default, or the next free one, saying so."""
    host = environ.get("GPUAAS_HOST", LOOPBACK)
    port, remark = _choose_port(host, asked_port or _set_port(environ))
    address = Address(host, port, "", remark)
    return Address(host, port, environ.get("GPUAAS_PUBLIC_URL", "").rstrip("/") or address.local_url, remark)


def program_environment(
    environ: Mapping[str, str], urls: ServerUrls, address: Address, *, master_key: str, health_port: int
) -> dict[str, str]:
    """Our own environment with this run's settings; never the owner's way into the database."""
    settings = {
        "GPUAAS_DATABASE_URL": urls.database,
        "GPUAAS_NATS_URL": urls.nats,
        "GPUAAS_PUBLIC_URL": address.public_url,
        "GPUAAS_HOST": address.host,
        "GPUAAS_PORT": str(address.port),
        "GPUAAS_METRICS_PORT": str(health_port),
    }
    defaults = {"GPUAAS_ENVIRONMENT": "demo"}
    if "GPUAAS_MASTER_KEY_FILE" not in environ:
        defaults["GPUAAS_MASTER_KEY"] = master_key
    inherited = {key: value for key, value in environ.items() if key != "GPUAAS_DATABASE_OWNER_URL"}
    return defaults | inherited | settings


def _set_port(environ: Mapping[str, str]) -> int | None:
    text = environ.get("GPUAAS_PORT", "")
    if text and not (text.isascii() and text.isdigit() and 0 < int(text) < 65_536):
        raise UpError(f"GPUAAS_PORT={text!r} is not a port (1 to 65535)")
    return int(text) if text else None


def _choose_port(host: str, asked: int | None) -> tuple[int, str]:
    try:
        if asked is not None:
            if not port_is_free(asked, host):
                raise UpError(f"port {asked} on {host} is already in use: choose another with --port")
            return asked, ""
        for port in range(DEFAULT_PORT, DEFAULT_PORT + _PORTS_TRIED):
            if port_is_free(port, host):
                return port, "" if port == DEFAULT_PORT else f"port {DEFAULT_PORT} is in use, taking {port}"
    except OSError as error:
        why = "only root may use it" if error.errno == errno.EACCES else error.strerror
        raise UpError(f"cannot listen on {host} port {asked or DEFAULT_PORT}: {why}") from None
    raise UpError(f"no free port from {DEFAULT_PORT} on: choose one with --port")
