"""`gpuaas webhooks` as a process: starts only with what it needs, says when it is ready, has stored what it took."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator

import asyncpg
import httpx
import pytest
from stripe import WebhookSignature

from gpuaas.infra.embedded.ports import free_port
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.support.programs import ProgramProcess
from tests.support.servers import DatabaseUrls
from tests.support.till import notice

SECRET = "whsec_of_the_webhooks_program"


class WebhooksProcess(ProgramProcess):
    def __init__(self, *given: object) -> None:
        super().__init__("webhooks", *given)  # type: ignore[arg-type] # passed on as they are
        self.settings |= {
            "GPUAAS_STRIPE_WEBHOOK_SECRETS": f"whsec_old, {SECRET}",
            "GPUAAS_WEBHOOKS_PORT": str(self.port),
        }

    async def send(self, client: httpx.AsyncClient, body: bytes) -> httpx.Response:
        signature = WebhookSignature.generate_signature_header(body.decode(), SECRET, clock.epoch_s())
        headers = {"content-type": "application/json", "stripe-signature": signature}
        return await client.post(f"http://127.0.0.1:{self.port}/stripe/webhook", content=body, headers=headers)


@pytest.fixture
async def program(database: DatabaseUrls, nats_url: str, tmp_path) -> AsyncIterator[WebhooksProcess]:
    process = WebhooksProcess(database.app, nats_url, tmp_path / "webhooks.log")
    process.start()
    await process.wait_ready(30)
    yield process
    process.kill()


async def stored(database: DatabaseUrls) -> set[str]:
    connection = await asyncpg.connect(database.superuser)
    try:
        return {row["event_id"] for row in await connection.fetch("SELECT event_id FROM webhook_events")}
    finally:
        await connection.close()


async def test_what_was_answered_is_stored_however_often_the_program_is_killed(
    program: WebhooksProcess, database: DatabaseUrls
):
    taken: set[str] = set()
    stop = asyncio.Event()

    async def sender(client: httpx.AsyncClient) -> None:
        while not stop.is_set():
            event_id = f"evt_{new_id().hex}"
            try:
                answer = await program.send(client, notice("customer.updated", {"id": "cus_1"}, event_id))
            except httpx.HTTPError:
                await asyncio.sleep(0.05)
                continue
            if answer.status_code == 200:
                taken.add(event_id)

    async with httpx.AsyncClient(timeout=10) as client:
        senders = [asyncio.create_task(sender(client)) for _ in range(4)]
        for _ in range(3):
            had = len(taken)
            while len(taken) < had + 20:  # noqa: ASYNC110 # there is no event to wait for
                await asyncio.sleep(0.02)
            program.kill()
            program.start()
            await program.wait_ready(30)
        stop.set()
        await asyncio.gather(*senders)
    assert len(taken) >= 60
    assert taken <= await stored(database)


@pytest.mark.parametrize(
    ("changed", "said", "code"),
    [
        ({"GPUAAS_STRIPE_WEBHOOK_SECRETS": ""}, "GPUAAS_STRIPE_WEBHOOK_SECRETS is missing", 2),
        ({"GPUAAS_STRIPE_API_BASE": "http://stripe.example.com"}, "must start with https://", 2),
        ({"GPUAAS_WEBHOOKS_PORT": "0"}, "wrong", 2),
    ],
    ids=["no secret", "plain http", "no port"],
)
def test_what_is_set_wrong_is_said_in_one_line(database: DatabaseUrls, nats_url: str, tmp_path, changed, said, code):
    process = WebhooksProcess(database.app, nats_url, tmp_path / "log")
    ended = subprocess.run(
        [sys.executable, "-m", "gpuaas", "webhooks"],
        env=os.environ | process.settings | changed,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ended.returncode, ended.stderr.count("\n")) == (code, 1)
    assert said in ended.stderr


def test_a_port_in_use_is_said(database: DatabaseUrls, nats_url: str, tmp_path):
    import socket

    port = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        process = WebhooksProcess(database.app, nats_url, tmp_path / "log")
        ended = subprocess.run(
            [sys.executable, "-m", "gpuaas", "webhooks"],
            env=os.environ | process.settings | {"GPUAAS_WEBHOOKS_PORT": str(port)},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert ended.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in ended.stderr
