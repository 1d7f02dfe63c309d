"""Watches an allocation: its timeline as server-sent events.

Always holds: a connection that is lost is made again; where no stream comes through, the timeline is asked for again
and again; the same is not told twice; and an API that stays away for a minute is told as such."""

import time
from collections.abc import Generator, Iterable, Iterator
from uuid import UUID

import msgspec

from gpuaas.client import allocations
from gpuaas.client.api import Api
from gpuaas.client.errors import ApiError, ClientError, Unreachable
from gpuaas.contracts.http.allocations import TimelineView
from gpuaas.kit import clock

LOOK_SECONDS = 1.0
AWAY_SECONDS = 60.0
MAX_EVENT = 4 * 1024 * 1024
_FINAL = frozenset({403, 404})


def timeline_watch(api: Api, project_id: UUID, allocation_id: UUID) -> Generator[TimelineView]:
    """The timeline now, and whenever it has changed, until the allocation has ended or nobody asks for more."""
    last, streams, seen_at = b"", True, clock.monotonic()
    while True:
        told = False
        try:
            source = _streamed if streams else _asked
            for body in source(api, project_id, allocation_id):
                told, seen_at = True, clock.monotonic()
                if body is None:
                    return
                if body != last:
                    last = body
                    yield msgspec.json.decode(body, type=TimelineView)
        except (Unreachable, ApiError) as error:
            if isinstance(error, ApiError) and error.status in _FINAL:
                raise
            if clock.monotonic() - seen_at > AWAY_SECONDS:
                raise
            streams = streams and told  # what lets no stream through now is not asked for one again
        if not told or not streams:
            time.sleep(LOOK_SECONDS)


def _streamed(api: Api, project_id: UUID, allocation_id: UUID) -> Iterator[bytes | None]:
    """None: it has ended."""
    for name, body in events(api.stream(allocations.allocation_timeline_live(project_id, allocation_id))):
        if name == "timeline":
            yield body
        elif name == "end":
            yield None


def _asked(api: Api, project_id: UUID, allocation_id: UUID) -> Iterator[bytes | None]:
    yield api.send_raw(allocations.allocation_timeline(project_id, allocation_id))


def events(chunks: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Names and data of server-sent events, however they are cut."""
    buffer = b""
    for chunk in chunks:
        buffer += chunk
        if len(buffer) > MAX_EVENT:
            raise ClientError("An event of the timeline is larger than any can be.")
        *whole, buffer = buffer.split(b"\n\n")
        for block in whole:
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if b": " in line and line[:1] != b":")
            if b"event" in fields:
                yield fields[b"event"].decode(), fields.get(b"data", b"")
