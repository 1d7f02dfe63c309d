"""How people pay in this run: through the provider whose key was set; through the demo's own, where no money moves; or,
in production without a key, not at all.

Each program gets of the keys what it needs: the API and the worker ask the provider, `webhooks` believes it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from gpuaas.infra.embedded.ports import LOOPBACK, free_port
from gpuaas.processes.settings import PREFIX
from gpuaas.processes.up.data_directory import DataDirectory
from gpuaas.processes.up.environment import Address, Given, in_url, kept_port, loopback_of, variables
from gpuaas.processes.up.program import Program

WEBHOOKS, DEMO = "webhooks", "demo-payments"
PORT_FILE = "payments_port"
FOLDER = "payments"
_PATH = "/stripe/webhook"


@dataclass(frozen=True)
class DemoProvider:
    """The demo's own provider: where it listens, how people and programs reach it."""

    host: str
    port: int
    url: str
    local_url: str
    control_key: str


@dataclass(frozen=True)
class Payments:
    """Without a webhooks port nobody listens to a provider."""

    secret_key: str = ""
    webhook_secrets: str = ""
    api_base: str = ""
    webhooks_host: str = LOOPBACK
    webhooks_port: int = 0
    demo: DemoProvider | None = None

    @property
    def webhooks_url(self) -> str:
        return f"http://{in_url(loopback_of(self.webhooks_host))}:{self.webhooks_port}"

    def asking(self, env: Mapping[str, str]) -> dict[str, str]:
        """For a program that asks the provider."""
        asked = {"stripe_secret_key": self.secret_key, "stripe_api_base": self.api_base}
        return {**env, **variables({name: value for name, value in asked.items() if value})}

    def believing(self, env: Mapping[str, str]) -> dict[str, str]:
        """For the program the provider tells things."""
        told = {
            "stripe_webhook_secrets": self.webhook_secrets,
            "webhooks_host": self.webhooks_host,
            "webhooks_port": str(self.webhooks_port),
        }
        return {**env, **variables(told)}


def choose_payments(given: Given, address: Address, data: DataDirectory) -> Payments:
    settings, taken = given.settings, frozenset({address.port, address.agent_port})
    if settings.stripe_secret_key:
        port = kept_port(given, "webhooks_port", settings.webhooks_host, settings.webhooks_port)
        return Payments(
            settings.stripe_secret_key,
            settings.stripe_webhook_secrets,
            settings.stripe_api_base,
            settings.webhooks_host,
            port if settings.stripe_webhook_secrets else 0,
        )
    if settings.environment != "demo":
        return Payments()
    port = free_port(preferred=data.last_port(PORT_FILE), taken=taken)
    local_url = f"http://{in_url(loopback_of(address.host, always=True))}:{port}"
    people = address.host if address.public_url == address.local_url else urlsplit(address.public_url).hostname
    return Payments(
        data.made_key("stripe_secret_key", "sk_test_"),
        data.made_key("stripe_webhook_secret", "whsec_"),
        local_url,
        webhooks_port=free_port(taken=taken | {port}),
        demo=DemoProvider(
            address.host,
            port,
            f"http://{in_url(loopback_of(people or LOOPBACK))}:{port}",
            local_url,
            data.made_key("demo_payments_control_key", "control_"),
        ),
    )


def demo_program(payments: Payments, demo: DemoProvider, data: Path, environ: Mapping[str, str], logs: Path) -> Program:
    """It gets nothing of the product's settings but what both sides of a payment share: it is somebody else's house."""
    shared = {
        "environment": "demo",
        "stripe_secret_key": payments.secret_key,
        "stripe_webhook_secrets": payments.webhook_secrets,
        "demo_payments_control_key": demo.control_key,
    }
    own = {key: value for key, value in environ.items() if not key.startswith(PREFIX)}
    own |= {key: value for key, value in environ.items() if key in (f"{PREFIX}LOG_LEVEL", f"{PREFIX}LOG_FORMAT")}
    argv = [sys.executable, "-m", "gpuaas", DEMO, "--data-dir", str(data / FOLDER)]
    argv += ["--port", str(demo.port), "--url", demo.url, "--webhooks-url", f"{payments.webhooks_url}{_PATH}"]
    hosts = {demo.host, urlsplit(demo.local_url).hostname or LOOPBACK} if _is_one(demo.host) else {demo.host}
    for host in sorted(hosts):
        argv += ["--host", host]
    return Program(DEMO, argv, own | variables(shared), f"{demo.local_url}/readyz", logs)


def _is_one(host: str) -> bool:
    """Whether it is the address of one interface, so that others must be named, too."""
    return loopback_of(host) == host
