"""From the environment `up` was started with to the one each program gets.

What nobody set is filled in from this run: embedded servers' URLs, a master key made once, a port. Every
setting is checked here, before anything starts, by the rules the programs check it by.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuaas.infra.embedded.ports import LOOPBACK, free_port, port_is_free
from gpuaas.processes.settings import PREFIX, Settings, SettingsError, load_settings
from gpuaas.processes.up.errors import UpError
from gpuaas.processes.up.options import DEFAULT_PORT

_PORTS_TRIED = 100
_EVERYWHERE = {"0.0.0.0": LOOPBACK, "::": "::1", "": LOOPBACK}  # noqa: S104 - recognised, not bound
_OF_THE_WORKER = ("task_signing_key", "task_signing_key_previous")
_OF_PAYMENTS = ("stripe_secret_key", "stripe_webhook_secrets", "stripe_api_base", "webhooks_host", "webhooks_port")
_STAND_INS = {
    "database_url": "postgresql://embedded",
    "nats_url": "nats://embedded",
    "public_url": f"http://{LOOPBACK}",
    "environment": "demo",
}


@dataclass(frozen=True)
class Given:
    """The settings with stand-ins where `up` provides the thing itself; `chosen` are those somebody set."""

    settings: Settings
    chosen: frozenset[str]


@dataclass(frozen=True)
class Address:
    """Where the API listens and how it is reached."""

    host: str
    port: int
    public_url: str
    local_url: str
    remark: str = ""
    agent_host: str = LOOPBACK
    agent_port: int = 0


def read_given(environ: Mapping[str, str], master_key: Callable[[], str]) -> Given:
    """Check what was set, by value or by file; one clear line when something is wrong."""
    known = {key: value for key, value in environ.items() if value or not key.startswith(PREFIX)}
    chosen = frozenset(
        name for name in Settings.__struct_fields__ if {_variable(name), f"{_variable(name)}_FILE"} & known.keys()
    )
    stand_ins = {_variable(name): value for name, value in _STAND_INS.items() if name not in chosen}
    if "master_key" not in chosen:
        stand_ins[_variable("master_key")] = master_key()
    try:
        return Given(load_settings(stand_ins | known), chosen)
    except SettingsError as error:
        raise UpError(str(error)) from None


def choose_address(
    given: Given, asked_port: int | None, last_port: int | None, last_agent_port: int | None = None
) -> Address:
    """The asked port or a clear refusal; without one the last run's, or the next free one, saying so.

    The same data keep their addresses where they can: they are part of every link and token handed out, and agents
    keep where their listener is.
    """
    host = given.settings.host
    if asked_port is None and "port" in given.chosen:
        asked_port = given.settings.port
    port, remark = _asked_port(host, asked_port) if asked_port else _free_port(host, last_port or DEFAULT_PORT)
    local_url = f"http://{in_url(loopback_of(host))}:{port}"
    public_url = given.settings.public_url.rstrip("/") if "public_url" in given.chosen else local_url
    agent_host = given.settings.agent_host if "agent_host" in given.chosen else host
    agent_port = _agent_port(given, agent_host, port, last_agent_port)
    return Address(host, port, public_url, local_url, remark, agent_host, agent_port)


def _agent_port(given: Given, host: str, api_port: int, last: int | None) -> int:
    if "agent_port" in given.chosen:
        return _asked_port(host, given.settings.agent_port)[0] if given.settings.agent_port else 0
    # No fixed first choice: two that start at once would both find it free. Agents are told where it is.
    if last is None or last == api_port:
        return free_port(taken=frozenset({api_port}))
    return _free_port(host, last)[0]


def program_environment(
    environ: Mapping[str, str], given: Given, address: Address, *, database_url: str, nats_url: str, objects_url: str
) -> dict[str, str]:
    """Our own environment with this run's settings; never the owner's way into the database, nor what signs tasks, nor
    keys of payments: they are given to the programs that need them."""
    settings = {
        "database_url": database_url,
        "nats_url": nats_url,
        "master_key": given.settings.master_key,
        "public_url": address.public_url,
        "host": address.host,
        "port": str(address.port),
        "agent_host": address.agent_host,
        "agent_port": str(address.agent_port),
        "environment": given.settings.environment,
        "objects_url": given.settings.objects_url or objects_url,
    }
    replaced = {_variable(name) for name in (*settings, "database_owner_url", *_OF_THE_WORKER, *_OF_PAYMENTS)}
    inherited = {key: value for key, value in environ.items() if key.removesuffix("_FILE") not in replaced}
    return inherited | variables(settings)


def for_worker(env: Mapping[str, str], given: Given, task_signing_key: Callable[[], str]) -> dict[str, str]:
    """The same with the keys that the worker alone may have: those that were set, or the one made for this data."""
    keys = {name: getattr(given.settings, name) for name in _OF_THE_WORKER}
    keys["task_signing_key"] = keys["task_signing_key"] or task_signing_key()
    return {**env, **variables({name: value for name, value in keys.items() if value})}


def with_health_port(env: Mapping[str, str], port: int) -> dict[str, str]:
    """The same for a program with a health listener of its own."""
    return {**env, _variable("metrics_port"): str(port)}


def variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings as a program reads them."""
    return {_variable(name): value for name, value in settings.items()}


def kept_port(given: Given, name: str, host: str, port: int) -> int:
    """The port that was set, or a clear refusal; where nobody set one, the usual or the next free one."""
    return (_asked_port(host, port) if name in given.chosen else _free_port(host, port))[0]


def loopback_of(host: str, *, always: bool = False) -> str:
    """Where a program of ours on this machine reaches who listens there; `always`: by loopback, whatever it is."""
    if always and not host.startswith("127.") and host not in ("::1", "localhost"):
        return _EVERYWHERE.get(host, LOOPBACK)
    return _EVERYWHERE.get(host, host)


def in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _asked_port(host: str, port: int) -> tuple[int, str]:
    if not _is_free(host, port):
        raise UpError(f"port {port} on {host} is already in use: choose another with --port")
    return port, ""


def _free_port(host: str, wanted: int) -> tuple[int, str]:
    for port in range(wanted, min(wanted + _PORTS_TRIED, 65_536)):
        if _is_free(host, port):
            return port, "" if port == wanted else f"port {wanted} is in use, taking {port}"
    raise UpError(f"no free port from {wanted} on: choose one with --port")


def _is_free(host: str, port: int) -> bool:
    try:
        return port_is_free(port, host)
    except OSError as error:
        why = "only root may use it" if error.errno == errno.EACCES else error.strerror
        raise UpError(f"cannot listen on {host} port {port}: {why}") from None
