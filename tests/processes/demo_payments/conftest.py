"""One provider and one taker of its webhooks per module; every test finds them healthy and nothing left to tell."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import stripe

from tests.support.payment_provider import DemoProvider, WebhookTaker, until


@pytest.fixture(scope="module")
def taking() -> Iterator[WebhookTaker]:
    made = WebhookTaker().start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def providing(taking: WebhookTaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoProvider]:
    made = DemoProvider(tmp_path_factory.mktemp("provider"), taking.url).start()
    yield made
    assert made.stop() == 0, made.log


@pytest.fixture
def taker(taking: WebhookTaker) -> WebhookTaker:
    taking.status = 200
    return taking


@pytest.fixture
def provider(providing: DemoProvider, taker: WebhookTaker) -> DemoProvider:
    providing.order("clear")
    until(lambda: providing.order("status")["untold"] == 0)
    taker.taken.clear()
    return providing


@pytest.fixture
def library(provider: DemoProvider) -> stripe.StripeClient:
    return provider.library()


@pytest.fixture
def own(tmp_path: Path, taker: WebhookTaker) -> Iterator[DemoProvider]:
    """One of the test's own, not started yet."""
    made = DemoProvider(tmp_path / "provider", taker.url)
    yield made
    made.end()
