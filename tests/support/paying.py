"""One demo provider for all tests of a process that need one: started when the first asks, ended with the process."""

import atexit
import shutil
import tempfile
from pathlib import Path

from tests.support.payment_provider import SECRET_KEY, WEBHOOK_SECRET, DemoProvider

NOWHERE = "http://127.0.0.1:9/stripe/webhook"
_started: list[DemoProvider] = []


def provider() -> DemoProvider:
    """Its notices go nowhere: whoever wants them starts one of his own."""
    if not _started:
        folder = Path(tempfile.mkdtemp(prefix="gpuaas-provider-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _started.append(DemoProvider(folder, NOWHERE).start())
        atexit.register(_started[0].kill)
        _started[0].order("webhooks", paused=True)
    return _started[0]


def paying() -> dict[str, str]:
    """The settings of a program that takes payments there."""
    return {
        "stripe_secret_key": SECRET_KEY,
        "stripe_api_base": provider().url,
        "stripe_webhook_secrets": WEBHOOK_SECRET,
    }
