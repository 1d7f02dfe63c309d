"""Webhooks: every event is sent until the other side has taken it, each attempt signed anew.

Always holds: an event counts as told only after a 2xx, and that is in the file; so a kill makes it be sent again, never
not at all. Order is not promised, nor that an event comes once."""

import asyncio
import contextlib
from collections.abc import Iterator
from functools import partial
from itertools import islice
from secrets import token_hex
from typing import Any

import httpx
import msgspec

from gpuaas.kit import clock, log
from gpuaas.processes.demo_payments.book import Book, Change, Object
from gpuaas.processes.demo_payments.faults import Faults, Forge
from gpuaas.processes.demo_payments.objects import new_event
from gpuaas.processes.demo_payments.signing import signature

AT_ONCE = 8
ANSWER_SECONDS = 15.0
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
GIVE_UP_SECONDS = 3 * 24 * 3600
LOOK_SECONDS = 0.5
MOST_COPIES = 20
_OLD_SECONDS = 3600


class Teller:
    """Runs until cancelled. `wake` when there is something new."""

    def __init__(self, book: Book, faults: Faults, url: str, secret: str) -> None:
        self._book = book
        self._faults = faults
        self._url = url
        self._secret = secret
        self._client = httpx.AsyncClient(timeout=ANSWER_SECONDS, follow_redirects=False, trust_env=False)
        self._woken = asyncio.Event()
        self._attempts: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._seen: dict[str, float] = {}
        self._flying: dict[str, asyncio.Task[None]] = {}

    def wake(self) -> None:
        self._woken.set()

    def waiting(self) -> int:
        return len(self._book.untold())

    async def run(self) -> None:
        try:
            while True:
                self._woken.clear()
                if not self._faults.webhooks.paused:
                    await self._send_ready()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._woken.wait()
        finally:
            for task in self._flying.values():
                task.cancel()
            await self._client.aclose()

    async def forge(self, asked: Forge) -> int:
        """The status a forgery was answered with; 0 when nobody answered."""
        event = new_event(asked.type, dict(asked.about), self._book.now())
        body, at = _body(event), clock.epoch_s()
        if asked.how == "old":
            at -= _OLD_SECONDS
        signed = signature(token_hex(32) if asked.how == "wrong_secret" else self._secret, at, body)
        if asked.how == "altered":
            body = body.replace(b'"livemode":false', b'"livemode":true')
        try:
            return (await self._post(body, "" if asked.how == "unsigned" else signed)).status_code
        except httpx.HTTPError:
            return 0

    async def _send_ready(self) -> None:
        gathering = self._faults.webhooks.reorder_seconds
        if gathering > 0:
            await self._send_newest_first(gathering)
            return
        for event in list(islice(self._ready(), AT_ONCE - len(self._flying))):
            task = asyncio.create_task(self._tell(event))
            self._flying[event["id"]] = task
            task.add_done_callback(partial(self._landed, event["id"]))

    async def _send_newest_first(self, gathering: float) -> None:
        now, ready = clock.monotonic(), list(self._ready())
        first = min((self._seen.setdefault(event["id"], now) for event in ready), default=now)
        if now - first >= gathering:
            for event in reversed(ready):
                await self._tell(event)

    def _ready(self) -> Iterator[Object]:
        now = clock.monotonic()
        for event in self._book.untold():
            if event["id"] not in self._flying and self._not_before.get(event["id"], now) <= now:
                yield event

    def _landed(self, id: str, _: asyncio.Task[None]) -> None:
        self._flying.pop(id, None)
        self._woken.set()

    async def _tell(self, event: Object) -> None:
        name = event["id"]
        try:
            reason = await self._attempt(event)
            if not reason or self._book.now() - event["created"] > GIVE_UP_SECONDS:
                self._book.write(Change(told=[name]))
                self._attempts.pop(name, None)
                self._not_before.pop(name, None)
                self._seen.pop(name, None)
                return
        except Exception as error:  # noqa: BLE001 # whatever it was, it is tried again, and not at once
            reason = type(error).__name__
        attempts = self._attempts[name] = self._attempts.get(name, 0) + 1
        pause = min(FIRST_PAUSE_SECONDS * 2 ** min(attempts - 1, 10), LONGEST_PAUSE_SECONDS)
        self._not_before[name] = clock.monotonic() + pause
        log.get_logger().warning("webhook not taken", event_type=event["type"], reason=reason, pause_seconds=pause)

    async def _attempt(self, event: Object) -> str:
        """'' when it was taken, else why not. With copies on tap, one that was taken is enough."""
        body, reasons = _body(event), []
        for _ in range(min(max(1, self._faults.webhooks.copies), MOST_COPIES)):
            at = clock.epoch_s() - self._faults.webhooks.aged_seconds
            answer = await self._post(body, signature(self._secret, at, body))
            reasons.append("" if answer.is_success else f"answered {answer.status_code}")
        return min(reasons)

    async def _post(self, body: bytes, signed: str) -> httpx.Response:
        headers = {"content-type": "application/json; charset=utf-8", "user-agent": "Stripe/1.0 (demo)"}
        if signed:
            headers["stripe-signature"] = signed
        return await self._client.post(self._url, content=body, headers=headers)


def _body(event: dict[str, Any]) -> bytes:
    return msgspec.json.encode(event)
