"""`gpuaas demo-payments` as a process, asked by the official library, and somebody who takes its webhooks."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import httpx
import stripe

from gpuaas.infra.embedded.ports import free_port

HOST = "127.0.0.1"
SECRET_KEY = "sk_test_of_the_demo_provider"
WEBHOOK_SECRET = "whsec_of_the_demo_provider"
CONTROL_KEY = "control_of_the_demo_provider"
BACK = "http://127.0.0.1:9/back"
T = TypeVar("T")


def until(found: Callable[[], T], seconds: float = 20.0) -> T:
    """What is found, as soon as it is something."""
    end = time.monotonic() + seconds
    while True:
        result = found()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {found}")
        time.sleep(0.02)


class DemoProvider:
    """One provider with its folder; it may be killed and started again on the same port."""

    def __init__(self, folder: Path, webhooks_url: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        self.environment = {
            "GPUAAS_ENVIRONMENT": "demo",
            "GPUAAS_STRIPE_SECRET_KEY": SECRET_KEY,
            "GPUAAS_STRIPE_WEBHOOK_SECRETS": f"{WEBHOOK_SECRET},whsec_of_another_time",
            "GPUAAS_DEMO_PAYMENTS_CONTROL_KEY": CONTROL_KEY,
        }
        self.argv = [
            *(sys.executable, "-m", "gpuaas", "demo-payments", "--data-dir", str(folder)),
            *("--port", str(self.port), "--webhooks-url", webhooks_url),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "DemoProvider":
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("ab") as out:
            self._process = subprocess.Popen(self.argv, stdout=out, stderr=out, env=os.environ | self.environment)
        until(self._ready)
        return self

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(15)

    def end(self) -> None:
        """Leave nothing running, whatever the test did."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def library(self, key: str = SECRET_KEY, *, tries_again: int = 0, seconds: float = 10.0) -> stripe.StripeClient:
        return stripe.StripeClient(
            key,
            base_addresses={"api": self.url},
            max_network_retries=tries_again,
            http_client=stripe.HTTPXClient(timeout=seconds, allow_sync_methods=True),
        )

    def order(self, do: str, **said: Any) -> dict[str, Any]:
        """Through the demo's own door: faults on tap, and what people and banks do."""
        answer = httpx.post(
            f"{self.url}/control", json={"do": do, **said}, headers={"authorization": f"Bearer {CONTROL_KEY}"}
        )
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def _ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except httpx.HTTPError:
            return False


@dataclass(frozen=True)
class Taken:
    """A webhook as it came."""

    body: bytes
    signature: str

    @property
    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def type(self) -> str:
        return str(self.event["type"])


@dataclass
class WebhookTaker:
    """Answers webhooks with `status` and keeps them, refused ones too."""

    status: int = 200
    taken: list[Taken] = field(default_factory=list)
    url: str = ""

    def start(self) -> "WebhookTaker":
        taker = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                body = self.rfile.read(length)
                if len(body) < length:  # its sender was killed
                    return
                taker.taken.append(Taken(body, self.headers.get("stripe-signature", "")))
                self.send_response(taker.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{HOST}:{self._server.server_port}/stripe/webhook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def of(self, session_id: str) -> list[Taken]:
        return [one for one in self.taken if one.event["data"]["object"].get("id") == session_id]

    def await_types(self, *types: str) -> list[Taken]:
        """Once as many webhooks of each type have come, those taken since the beginning."""
        until(lambda: all(sum(one.type == kind for one in self.taken) >= types.count(kind) for kind in types))
        return list(self.taken)


def wanted(**changed: Any) -> Any:
    """A checkout as the product asks for it."""
    price = {"currency": "usd", "unit_amount": 5000, "product_data": {"name": "Top-up"}}
    return {
        "mode": "payment",
        "line_items": [{"quantity": 1, "price_data": price}],
        "client_reference_id": "payment-1",
        "metadata": {"payment_id": "payment-1"},
        "payment_intent_data": {"metadata": {"payment_id": "payment-1"}},
        "success_url": f"{BACK}?paid={{CHECKOUT_SESSION_ID}}",
        "cancel_url": f"{BACK}?cancelled=1",
        **changed,
    }
