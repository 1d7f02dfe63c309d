"""Objects: kept whole under their names, on local disk and in a bucket; what cannot be is said in one line."""

import asyncio
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from gpuaas.infra.embedded.ports import free_port
from gpuaas.infra.objects.store import open_objects
from gpuaas.ports.objects import ObjectMissing, Objects, ObjectsAway
from tests.support.servers import DatabaseUrls

NAME = "agent-artifacts/01/1-abc"


class Bucket(BaseHTTPRequestHandler):
    """As much of S3 as a client of ours uses: path-style PUT, GET and DELETE, signed requests only."""

    kept: ClassVar[dict[str, bytes]] = {}
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        self.kept[self.path] = content
        self._answer(200, b"")

    def do_GET(self) -> None:
        found = self.kept.get(self.path)
        missing = b"<Error><Code>NoSuchKey</Code></Error>"
        self._answer(404 if found is None else 200, missing if found is None else found)

    def do_DELETE(self) -> None:
        self.kept.pop(self.path, None)
        self._answer(204, b"")

    def do_POST(self) -> None:
        """Several deletions at once."""
        names = re.findall(rb"<Key>(.*?)</Key>", self.rfile.read(int(self.headers["content-length"])))
        for name in names:
            self.kept.pop(f"{self.path.partition('?')[0].rstrip('/')}/{name.decode()}", None)
        said = b"".join(b"<Deleted><Key>" + name + b"</Key></Deleted>" for name in names)
        self._answer(200, b'<?xml version="1.0"?><DeleteResult>' + said + b"</DeleteResult>")

    def _answer(self, status: int, content: bytes) -> None:
        if not self.headers.get("authorization", "").startswith("AWS4-HMAC-SHA256 Credential=key/"):
            status, content = 403, b""
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.send_header("etag", '"1"')
        self.send_header("last-modified", "Sun, 15 Nov 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    Bucket.kept.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    thread = Thread(target=server.serve_forever)
    thread.start()
    for name, value in {
        "AWS_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "eu-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }.items():
        monkeypatch.setenv(name, value)
    yield "s3://things/below"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=["folder", "bucket"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    url = (tmp_path / "a folder").as_uri() if request.param == "folder" else request.getfixturevalue("bucket")
    return open_objects(url)


async def test_what_is_put_is_got_until_it_is_deleted(objects: Objects) -> None:
    content = os.urandom(100_000)
    with pytest.raises(ObjectMissing):
        await objects.get(NAME)
    await objects.put(NAME, b"before")
    await objects.put(NAME, content)
    assert await objects.get(NAME) == content
    await objects.delete([NAME])
    with pytest.raises(ObjectMissing):
        await objects.get(NAME)
    await objects.delete([NAME])


async def test_a_bucket_keeps_names_below_its_prefix(bucket: str) -> None:
    await open_objects(bucket).put(NAME, b"x")
    assert list(Bucket.kept) == [f"/things/below/{NAME}"]


async def test_a_folder_is_for_its_owner_alone_and_nobody_reads_a_half(tmp_path: Path) -> None:
    objects = open_objects((tmp_path / "kept").as_uri())
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700
    ones, twos = b"1" * 3_000_000, b"2" * 3_000_000
    await objects.put(NAME, ones)
    writing = asyncio.create_task(objects.put(NAME, twos))
    while not writing.done():
        assert await objects.get(NAME) in (ones, twos)
    assert await objects.get(NAME) == twos


async def test_without_a_place_everything_is_away() -> None:
    with pytest.raises(ObjectsAway, match="GPUAAS_OBJECTS_URL is not set"):
        await open_objects("").put(NAME, b"x")


@pytest.mark.parametrize("program", ["api", "worker"])
def test_a_place_that_cannot_be_written_is_said_in_one_line(
    program: str, tmp_path: Path, database: DatabaseUrls, nats_url: str
) -> None:
    (tmp_path / "file").touch()
    env = {
        "GPUAAS_DATABASE_URL": database.app,
        "GPUAAS_NATS_URL": nats_url,
        "GPUAAS_MASTER_KEY": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "GPUAAS_PUBLIC_URL": "http://127.0.0.1:1",
        "GPUAAS_PORT": str(free_port()),
        "GPUAAS_METRICS_PORT": str(free_port()),
        "GPUAAS_LOG_LEVEL": "error",
        "GPUAAS_OBJECTS_URL": (tmp_path / "file" / "below").as_uri(),
    }
    argv = [sys.executable, "-m", "gpuaas", program]
    done = subprocess.run(argv, env=os.environ | env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith(f"gpuaas {program}: ")]
    assert len(said) == 1, done.stderr
    assert "cannot keep files" in said[0]
    assert "Traceback" not in done.stderr
