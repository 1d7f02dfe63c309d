"""How a run is paid: the demo's own provider unless somebody set a key, and never in production."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.processes.up.conftest import Up

LIVE = {"GPUAAS_STRIPE_SECRET_KEY": "sk_test_of_somebody", "GPUAAS_STRIPE_WEBHOOK_SECRETS": "whsec_of_somebody"}


def environment(ready: Mapping[str, Any], name: str) -> dict[str, str]:
    content = Path(f"/proc/{ready['programs'][name]}/environ").read_text()
    return dict(line.partition("=")[::2] for line in content.split("\0") if line)


def holders(ready: Mapping[str, Any], value: str) -> set[str]:
    return {name for name in ready["programs"] if value in environment(ready, name).values()}


def test_without_a_key_the_demo_is_paid_at_its_own_provider_and_keeps_its_keys_and_address(up: Up) -> None:
    first = up.start("--fleet", "0")
    assert "a demo: no money moves" in up.said()
    assert httpx.get(f"{first['demo_payments']['url']}/readyz").status_code == 200
    secrets = json.loads((up.data / "secrets.json").read_text())
    assert holders(first, secrets["stripe_secret_key"]) == {"api", "worker", "demo-payments"}
    assert holders(first, secrets["stripe_webhook_secret"]) == {"webhooks", "demo-payments"}
    assert holders(first, secrets["demo_payments_control_key"]) == {"demo-payments"}
    assert holders(first, secrets["master_key"]) == {"api", "relay", "webhooks", "worker"}
    assert environment(first, "api")["GPUAAS_STRIPE_API_BASE"] == first["demo_payments"]["url"]
    for name in ("stripe_secret_key", "stripe_webhook_secret", "demo_payments_control_key"):
        assert secrets[name] not in up.said()

    up.stop()
    second = up.start("--fleet", "0")
    assert second["demo_payments"] == first["demo_payments"]
    assert json.loads((up.data / "secrets.json").read_text()) == secrets


def test_with_a_key_the_provider_it_belongs_to_is_asked(up: Up) -> None:
    ready = up.start("--fleet", "0", env=LIVE)
    assert "demo-payments" not in ready["programs"]
    assert "demo_payments" not in ready
    assert "no money moves" not in up.said()
    assert holders(ready, LIVE["GPUAAS_STRIPE_SECRET_KEY"]) == {"api", "worker"}
    assert holders(ready, LIVE["GPUAAS_STRIPE_WEBHOOK_SECRETS"]) == {"webhooks"}
    assert "GPUAAS_STRIPE_API_BASE" not in environment(ready, "api")


def test_production_without_a_key_has_no_payments_rather_than_a_demo_of_them(up: Up) -> None:
    ready = up.start("--no-demo", env={"GPUAAS_ENVIRONMENT": "production"})
    assert set(ready["programs"]) == {"api", "relay", "worker"}
    assert "no money moves" not in up.said()
    assert "stripe_secret_key" not in json.loads((up.data / "secrets.json").read_text())
