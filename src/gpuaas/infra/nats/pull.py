"""Durable pull consumers, one per reaction and stream.

Always holds: at most `slots` messages of a consumer are in hand; a consumer that is missing or different is put right
without a restart; a new one begins where the books say its reaction is complete, not at the beginning of the stream."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from gpuaas.contracts.events.base import Stream
from gpuaas.infra.nats.bus import NOT_FOUND, Bus, BusAway, BusRefused
from gpuaas.infra.nats.streams import SECOND
from gpuaas.kit import log

ACK_WAIT_SECONDS = 45
MAX_ACK_PENDING = 256
PULL_SECONDS = 5.0
GRACE_SECONDS = 2.0
PAUSE_SECONDS = 0.5
_STATUS = "Status"
_PULL_OVER = frozenset({"404", "408"})

Take = Callable[[Msg], Awaitable[None]]
StartTime = Callable[[], Awaitable[datetime | None]]


class Consumer(msgspec.Struct, frozen=True):
    """Which subjects of a stream somebody hears, and under which name it is remembered."""

    name: str
    stream: Stream
    subjects: tuple[str, ...]

    @property
    def durable(self) -> str:
        return self.name.replace(".", "-")

    def wanted(self) -> dict[str, Any]:
        return {
            "durable_name": self.durable,
            "ack_policy": "explicit",
            "ack_wait": ACK_WAIT_SECONDS * SECOND,
            "max_deliver": -1,
            "max_ack_pending": MAX_ACK_PENDING,
            "filter_subjects": list(self.subjects),
            "replay_policy": "instant",
        }


async def consumer_info(bus: Bus, consumer: Consumer) -> dict[str, Any] | None:
    try:
        return await bus.ask(f"CONSUMER.INFO.{consumer.stream.value}.{consumer.durable}")
    except BusRefused as refusal:
        if refusal.code != NOT_FOUND:
            raise
        return None


async def ensure_consumer(bus: Bus, consumer: Consumer, start: StartTime) -> bool:
    """Put a consumer right; says whether it was not."""
    info, want = await consumer_info(bus, consumer), consumer.wanted()
    if info is not None:
        found = info["config"]
        heard = found.get("filter_subjects") or [found["filter_subject"]] if found.get("filter_subject") else None
        found["filter_subjects"] = found.get("filter_subjects") or heard
        if all(found.get(key) == value for key, value in want.items()):
            return False
        found.pop("filter_subject", None)
        want = found | want
    else:
        since = await start()
        want |= (
            {"deliver_policy": "all"}
            if since is None
            else {
                "deliver_policy": "by_start_time",
                "opt_start_time": since.astimezone(UTC).isoformat(),
            }
        )
    await bus.ask(
        f"CONSUMER.CREATE.{consumer.stream.value}.{consumer.durable}",
        {"stream_name": consumer.stream.value, "config": want},
    )
    log.get_logger().info("consumer put right", consumer=consumer.name, stream=consumer.stream.value)
    return True


class Puller:
    """Hands each message of one consumer to `take`, `slots` at a time, until told to stop."""

    def __init__(self, bus: Bus, consumer: Consumer, take: Take, start: StartTime, *, slots: int) -> None:
        self._bus = bus
        self._consumer = consumer
        self._take = take
        self._start = start
        self._slots = slots
        self._in_hand: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._stopping = asyncio.Event()
        self._subscription: tuple[int, Subscription, str] | None = None

    async def run(self) -> None:
        """Cancelling may get lost inside the library, so `finish` also leaves word."""
        while not self._stopping.is_set():
            try:
                if not await self._bus.wait_connected(PULL_SECONDS):
                    continue
                await ensure_consumer(self._bus, self._consumer, self._start)
                while not self._stopping.is_set() and await self._pull():
                    pass
            except Exception as error:  # noqa: BLE001 - NATS is away, or the books its consumer begins from: try again
                log.get_logger().info("pull interrupted", consumer=self._consumer.name, reason=str(error))
            await asyncio.sleep(PAUSE_SECONDS)

    async def finish(self, seconds: float) -> None:
        """Wait for what is in hand; what is not done by then is delivered again."""
        self._stopping.set()
        if self._in_hand:
            await asyncio.wait(self._in_hand, timeout=seconds)
        for task in self._in_hand:
            task.cancel()

    async def _pull(self) -> bool:
        """One request for as many messages as there is room for; false when the consumer should be looked at."""
        room = await self._wait_for_room()
        subscription, inbox = await self._subscribed()
        request = {"batch": room, "expires": int(PULL_SECONDS * SECOND)}
        await self._bus.client().publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{self._consumer.stream.value}.{self._consumer.durable}",
            msgspec.json.encode(request),
            reply=inbox,
        )
        while room:
            try:
                message = await subscription.next_msg(PULL_SECONDS + GRACE_SECONDS)
            except TimeoutError:
                return False
            status = None if message.data else (message.headers or {}).get(_STATUS)
            if status is None:
                room -= 1
                self._hand_over(message)
            elif status in _PULL_OVER:
                return True
            else:
                log.get_logger().info("pull ended", consumer=self._consumer.name, status=status)
                return False
        return True

    async def _wait_for_room(self) -> int:
        while len(self._in_hand) > self._slots // 2:
            self._room.clear()
            await self._room.wait()
        return self._slots - len(self._in_hand)

    async def _subscribed(self) -> tuple[Subscription, str]:
        if self._subscription is None or self._subscription[0] != self._bus.connections:
            client = self._bus.client()
            inbox = client.new_inbox()
            self._subscription = (self._bus.connections, await client.subscribe(inbox), inbox)
        return self._subscription[1], self._subscription[2]

    def _hand_over(self, message: Msg) -> None:
        task = asyncio.create_task(self._handle(message))
        self._in_hand.add(task)
        task.add_done_callback(self._done)

    async def _handle(self, message: Msg) -> None:
        with contextlib.suppress(NatsError, BusAway, OSError):
            await self._take(message)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._in_hand.discard(task)
        self._room.set()
        if not task.cancelled() and task.exception() is not None:
            log.get_logger().error("a message was dropped", consumer=self._consumer.name, exc_info=task.exception())
