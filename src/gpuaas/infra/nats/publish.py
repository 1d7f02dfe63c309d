"""Publishing many messages with all of them in flight at once, and knowing of each whether the stream has it.

Always holds: a message counts as published only when JetStream acknowledged it; a lost or late answer counts as no."""

import asyncio
import contextlib
import itertools
from collections.abc import Sequence

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError

from gpuaas.contracts.events.base import Envelope
from gpuaas.infra.nats.bus import NO_RESPONDERS, Bus, BusAway
from gpuaas.kit import log

ACK_SECONDS = 10.0
MAX_IN_FLIGHT = 1000
MESSAGE_ID = "Nats-Msg-Id"
CORRELATION = "Gpuaas-Correlation-Id"
TRACEPARENT = "traceparent"
_ENCODER = msgspec.json.Encoder()


class Message(msgspec.Struct, frozen=True):
    subject: str
    body: bytes
    headers: dict[str, str]


def event_message(envelope: Envelope, subject: str, *, message_id: str = "") -> Message:
    """An event as it travels. `message_id` differs from the event's id when it is sent again on purpose."""
    headers = {MESSAGE_ID: message_id or str(envelope.id)}
    if envelope.correlation_id:
        headers[CORRELATION] = envelope.correlation_id
    if envelope.traceparent:
        headers[TRACEPARENT] = envelope.traceparent
    return Message(subject, _ENCODER.encode(envelope), headers)


class Flight:
    """The answers to one batch."""

    def __init__(self, count: int, waiting: "dict[str, tuple[Flight, int]]") -> None:
        self.acknowledged: set[int] = set()
        self.refusals: dict[int, str] = {}
        self.tokens: list[str] = []
        self._waiting = waiting
        self._count = count
        self._ended = asyncio.Event()
        if not count:
            self._ended.set()

    def answered(self, index: int, refusal: str) -> None:
        if refusal:
            self.refusals[index] = refusal
        else:
            self.acknowledged.add(index)
        if len(self.acknowledged) + len(self.refusals) >= self._count:
            self._ended.set()

    def abandon(self) -> None:
        """No more answers will come."""
        self._ended.set()

    async def landed(self) -> set[int]:
        """Which messages of the batch are in their stream, once all are answered or the time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ACK_SECONDS):
                await self._ended.wait()
        for token in self.tokens:
            self._waiting.pop(token, None)
        if self.refusals:
            first = next(iter(self.refusals.values()))
            log.get_logger().warning("publish refused", messages=len(self.refusals), reason=first)
        return self.acknowledged

    @property
    def stream_missing(self) -> bool:
        return NO_RESPONDERS in self.refusals.values()


class Publisher:
    """Sends batches on the bus's connection; its answers come to one inbox."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._waiting: dict[str, tuple[Flight, int]] = {}
        self._tokens = itertools.count()
        self._client: Client | None = None
        self._inbox = ""
        bus.when_lost(self._lost)

    async def send(self, messages: Sequence[Message]) -> Flight:
        """Send a batch; `await flight.landed()` says what arrived."""
        if len(messages) > MAX_IN_FLIGHT:
            raise ValueError(f"at most {MAX_IN_FLIGHT} messages at once")
        client = await self._ready()
        flight = Flight(len(messages), self._waiting)
        try:
            for index, message in enumerate(messages):
                await self._send_one(client, flight, index, message)
        except (NatsError, OSError, TimeoutError) as error:
            raise BusAway(f"{type(error).__name__}: {error}") from error
        return flight

    async def publish(self, messages: Sequence[Message]) -> set[int]:
        """Send and wait."""
        return await (await self.send(messages)).landed()

    async def _send_one(self, client: Client, flight: Flight, index: int, message: Message) -> None:
        token = str(next(self._tokens))
        self._waiting[token] = (flight, index)
        flight.tokens.append(token)
        try:
            await client.publish(message.subject, message.body, reply=f"{self._inbox}.{token}", headers=message.headers)
        except MaxPayloadError:
            del self._waiting[token]
            flight.answered(index, f"{len(message.body)} bytes are more than NATS takes")

    async def _ready(self) -> Client:
        client = self._bus.client()
        if client is not self._client:
            self._lost()
            self._inbox = client.new_inbox()
            try:
                await client.subscribe(f"{self._inbox}.*", cb=self._answer)
            except (NatsError, OSError) as error:
                raise BusAway(f"{type(error).__name__}: {error}") from error
            self._client = client
        return client

    def _lost(self) -> None:
        """The connection is gone: whatever was in flight on it has not landed as far as we know."""
        for flight, _ in list(self._waiting.values()):
            flight.abandon()
        self._waiting.clear()

    async def _answer(self, answer: Msg) -> None:
        waiting = self._waiting.pop(answer.subject.rpartition(".")[2], None)
        if waiting is not None:
            flight, index = waiting
            flight.answered(index, _refusal(answer))


def _refusal(answer: Msg) -> str:
    if answer.data:
        return "" if b'"error"' not in answer.data else answer.data.decode(errors="replace")[:300]
    return str((answer.headers or {}).get("Status", "no answer"))
