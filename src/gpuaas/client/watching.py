"""Watches an allocation: its timeline as server-sent events.

Always holds: a connection that is lost is made again; where no stream comes through, the timeline is asked for again
and again; the same is not told twice; and an API that stays away for a minute is told as such."""

import time
from collections.abc import Generator, Iterable, Iterator
from uuid import UUID

from gpuaas.client import allocations
from gpuaas.client.api import Api, decode
from gpuaas.client.errors import ApiError, ClientError, Unreachable
from gpuaas.contracts.http.allocations import TimelineView
from gpuaas.kit import clock

LOOK_SECONDS = 1.0
AWAY_SECONDS = 60.0
MAX_EVENT = 4 * 1024 * 1024
_FINAL = frozenset({403, 404})


def timeline_watch(api: Api, project_id: UUID, allocation_id: UUID) -> Generator[TimelineView]:
    """The timeline now, and whenever it has changed, until the allocation has ended or nobody asks for more."""
    last: TimelineView | None = None
    streams, streamed, seen_at = True, False, clock.monotonic()
    shape = allocations.allocation_timeline(project_id, allocation_id)
    while True:
        told = False
        try:
            for body in (_streamed if streams else _asked)(api, project_id, allocation_id):
                told, seen_at, streamed = True, clock.monotonic(), streamed or streams
                if body is None:
                    return
                found = decode(shape, body)
                if found != last:
                    last = found
                    yield found
            streams = streamed  # where none ever came through, none is asked for again
        except (Unreachable, ApiError) as error:
            if isinstance(error, ApiError) and error.status in _FINAL:
                raise
            if clock.monotonic() - seen_at > AWAY_SECONDS:
                raise
            streams = False  # asked for once in the plain way, which also renews a credential that has expired
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
