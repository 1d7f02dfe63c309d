"""What the demo provider is told at its start. It is somebody else's house: it gets none of the product's settings but
the two keys both sides of a payment must share, and the word that this is a demo."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from gpuaas.processes.settings import PREFIX, SettingsError, read_variable

KEY_PREFIX = "sk_test_"
SHORTEST_KEY = 16


@dataclass(frozen=True)
class DemoSettings:
    data_dir: Path
    hosts: tuple[str, ...]
    port: int
    url: str
    webhooks_url: str
    secret_key: str
    webhook_secret: str
    control_key: str
    log_level: str
    log_format: str


def read_settings(argv: Sequence[str], environ: Mapping[str, str]) -> DemoSettings:
    """SettingsError with one clear line when something is wrong; the end of the program with its usage otherwise."""
    given = _parser().parse_args(list(argv))

    def variable(name: str, default: str = "") -> str:
        return read_variable(environ, PREFIX + name) or default

    if variable("ENVIRONMENT", "production") != "demo":
        raise SettingsError(f"it is a demo, and {PREFIX}ENVIRONMENT is not `demo`: in production, use a real provider")
    secret_key = variable("STRIPE_SECRET_KEY")
    if not secret_key.startswith(KEY_PREFIX) or len(secret_key) < SHORTEST_KEY:
        raise SettingsError(f"{PREFIX}STRIPE_SECRET_KEY must be a test key ({KEY_PREFIX}…): it is what callers send")
    webhook_secret = variable("STRIPE_WEBHOOK_SECRETS").split(",")[0].strip()
    if len(webhook_secret) < SHORTEST_KEY:
        raise SettingsError(f"{PREFIX}STRIPE_WEBHOOK_SECRETS must be set (whsec_…): webhooks are signed with the first")
    control_key = variable("DEMO_PAYMENTS_CONTROL_KEY")
    if control_key and (len(control_key) < SHORTEST_KEY or control_key == secret_key):
        raise SettingsError(f"{PREFIX}DEMO_PAYMENTS_CONTROL_KEY must be a long key of its own")
    for name, url in (("--url", given.url), ("--webhooks-url", given.webhooks_url)):
        if url and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
            raise SettingsError(f"{name} must be an address like http://127.0.0.1:8090")
    hosts = tuple(given.host or ["127.0.0.1"])
    return DemoSettings(
        given.data_dir,
        hosts,
        given.port,
        (given.url or f"http://{f'[{hosts[0]}]' if ':' in hosts[0] else hosts[0]}:{given.port}").rstrip("/"),
        given.webhooks_url,
        secret_key,
        webhook_secret,
        control_key,
        variable("LOG_LEVEL", "info"),
        variable("LOG_FORMAT", "json"),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuaas demo-payments",
        description="A payment provider for demos and tests: speaks the part of Stripe's API that top-ups use. "
        f"No money moves. Keys come from {PREFIX}STRIPE_SECRET_KEY and {PREFIX}STRIPE_WEBHOOK_SECRETS.",
    )
    parser.add_argument("--data-dir", type=Path, required=True, help="where it keeps its one file")
    parser.add_argument("--host", action="append", help="address to listen on, or several (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8090, help="port to listen on (%(default)s)")
    parser.add_argument("--url", default="", help="how people reach its pages (default: host and port)")
    parser.add_argument("--webhooks-url", required=True, help="where webhooks go: http://…/stripe/webhook")
    return parser
