"""The embedded NATS server: JetStream that keeps what it acknowledged, behind a password, on loopback."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest
from nats.js import JetStreamContext

from gpuaas.infra.embedded.child import identify, is_alive
from gpuaas.infra.embedded.errors import EmbeddedError
from gpuaas.infra.embedded.nats import EmbeddedNats


@pytest.fixture
def server(data_dir: Path) -> Iterator[EmbeddedNats]:
    server = EmbeddedNats(data_dir)
    yield server
    server.kill()


def with_stream(url: str, work: Callable[[JetStreamContext], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        client = await nats.connect(url, allow_reconnect=False)
        try:
            return await work(client.jetstream())
        finally:
            await client.close()

    return asyncio.run(run())


async def publish_ten(stream: JetStreamContext) -> None:
    await stream.add_stream(name="KEPT", subjects=["kept.>"])
    for number in range(10):
        await stream.publish("kept.x", str(number).encode())


async def count(stream: JetStreamContext) -> int:
    return (await stream.stream_info("KEPT")).state.messages


def test_acknowledged_messages_survive_kill_9_and_the_url_stays(server):
    url = server.start()
    with_stream(url, publish_ten)
    server.kill()
    assert server.start() == url
    assert with_stream(url, count) == 10


def test_acknowledged_means_on_the_disk(server):
    server.start()
    assert "sync_interval: always" in (server.home / "nats.conf").read_text()


def test_a_stranger_is_turned_away(server):
    host = server.start().rpartition("@")[2]

    async def enter(url: str) -> None:
        await nats.connect(url, allow_reconnect=False, connect_timeout=5, error_cb=_ignore)

    for url in (f"nats://{host}", f"nats://gpuaas:wrong@{host}"):
        with pytest.raises(nats.errors.Error):
            asyncio.run(enter(url))


async def _ignore(_: Exception) -> None:
    return None


def test_it_listens_on_loopback_only(server):
    server.start()
    addresses = subprocess.run(["cat", "/proc/net/tcp"], capture_output=True, text=True, check=True).stdout
    for url in (server.url, server.monitor_url):
        port = f"{int(url.rpartition(':')[2]):04X}"
        listening = [line.split()[1] for line in addresses.splitlines()[1:] if line.split()[3] == "0A"]
        assert [address for address in listening if address.endswith(f":{port}")] == [f"0100007F:{port}"]


def test_its_configuration_holds_the_password_and_is_private(server):
    server.start()
    assert (server.home / "nats.conf").stat().st_mode & 0o777 == 0o600


def test_it_starts_again_after_its_data_was_deleted(server):
    with_stream(server.start(), publish_ten)
    server.kill()
    shutil.rmtree(server.home / "data")
    url = server.start()
    with_stream(url, publish_ten)
    assert with_stream(url, count) == 10


def test_a_second_start_on_the_same_data_is_refused(server, data_dir):
    server.start()
    with pytest.raises(EmbeddedError, match="in use by another start"):
        EmbeddedNats(data_dir).start()
    assert server.is_ready()


ORPHAN = """
import sys, time
from pathlib import Path
from gpuaas.infra.embedded import child
child._libc.prctl = lambda *_: 0   # the kernel is not asked to tell: recovery must not depend on it
from gpuaas.infra.embedded.nats import EmbeddedNats
server = EmbeddedNats(Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""


def test_a_server_left_by_a_killed_starter_is_ended(server, data_dir):
    starter = subprocess.Popen([sys.executable, "-c", ORPHAN, str(data_dir)], stdout=subprocess.PIPE)
    assert starter.stdout is not None
    orphan = identify(int(starter.stdout.readline()))
    assert orphan is not None
    starter.kill()
    starter.communicate()
    assert is_alive(orphan)
    server.start()
    assert not is_alive(orphan)
