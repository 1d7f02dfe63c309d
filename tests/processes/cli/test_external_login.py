"""`gpuaas login` at an issuer that is not ours: a certified one, with its own pages, keys and opinions."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from gpuaas.infra.embedded.ports import free_port
from gpuaas.kit import clock
from tests.support.external_issuer import AUDIENCE, CLIENT_SECRET, ExternalIssuer, log_in
from tests.support.live import make_settings, open_rates, serving
from tests.support.servers import DatabaseUrls
from tests.support.terminal import SECONDS, Terminal, told_address


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalIssuer]:
    made = ExternalIssuer(free_port(), tmp_path_factory.mktemp("issuer") / "issuer.log")
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
async def url(issuer: ExternalIssuer, database: DatabaseUrls, nats_url: str) -> AsyncIterator[str]:
    """An API that trusts it; the command line is its client 'someone'."""
    await open_rates(database.superuser)
    settings = make_settings(
        database.app, nats_url, issuer_url=issuer.url, oidc_audience=AUDIENCE, oidc_client_secret=CLIENT_SECRET,
        oidc_cli_client_id="someone",
    )  # fmt: skip
    async with serving(settings):
        yield settings.public_url


async def test_a_person_of_another_issuer_logs_in_is_renewed_and_logs_out(terminal: Terminal, url: str):
    process = await terminal.start("login", "--no-browser", "--url", url)
    address = await told_address(process, r"http://\S+/auth\?\S+")
    answer = await log_in(address, "grace")
    asked = httpx.URL(address).params
    async with httpx.AsyncClient() as browser:
        await browser.get(asked["redirect_uri"], params=answer)
    out, err = await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode == 0, err.decode()
    assert "as grace@example.com" in out.decode()

    [file] = (terminal.folder / "sessions").glob("*.json")
    stored = json.loads(file.read_bytes())
    file.write_text(json.dumps(stored | {"expires_at": clock.epoch_s() - 1}))
    assert (await terminal.run("whoami", "-o", "json")).json["email"] == "grace@example.com"
    renewed = json.loads(file.read_bytes())
    assert renewed["refresh_token"] != stored["refresh_token"], "this issuer rotates, too"

    await terminal.good("logout")
    assert (await terminal.run("whoami")).code == 3


async def test_an_issuer_without_device_login_is_told(terminal: Terminal, url: str):
    refused = await terminal.run("login", "--device", "--url", url)
    assert refused.code == 1
    assert "has no device login" in refused.err
