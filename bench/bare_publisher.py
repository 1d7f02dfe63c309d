"""The limit of publishing here: the library's own asynchronous publisher with ready-made messages of an event's size,
each with its message id, as many in flight as the library allows. Prints messages a second."""

import asyncio
import sys
import time

import msgspec
import nats
import uvloop
from nats.js.api import StorageType, StreamConfig

from gpuaas.contracts.events.base import Envelope
from gpuaas.infra.nats.publish import event_message
from gpuaas.kit import clock
from gpuaas.kit.ids import EventId, new_id

STREAM = "BENCH"


async def publish(url: str, count: int) -> float:
    client = await nats.connect(url)
    js = client.jetstream(timeout=60)
    await js.add_stream(
        StreamConfig(name=STREAM, subjects=["bench.>"], storage=StorageType.FILE, duplicate_window=120, max_age=3600)
    )
    messages = [event_message(_envelope(), "bench.project.created") for _ in range(count)]
    started = time.perf_counter()
    flying = [await js.publish_async(one.subject, one.body, headers=one.headers) for one in messages]
    await asyncio.gather(*flying)
    spent = time.perf_counter() - started
    await js.delete_stream(STREAM)
    await client.close()
    return count / spent


def _envelope() -> Envelope:
    return Envelope(
        id=EventId(new_id()),
        name="project.created",
        version=1,
        occurred_at=clock.now(),
        org_id=new_id(),
        subject_id=new_id(),
        actor=f"user:{new_id()}",
        correlation_id="c" * 26,
        traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01",
        payload=msgspec.Raw(msgspec.json.encode({"name": "bench-1234", "project_id": new_id()})),
    )


if __name__ == "__main__":
    sys.stdout.write(f"{uvloop.run(publish(sys.argv[1], int(sys.argv[2]))):.1f}\n")
