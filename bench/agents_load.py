"""Agents from a process of their own: the real client over mutual TLS, the real back-off, nothing behind them.

    python -m bench.agents_load URL FOLDER NODES

FOLDER has `ca.pem` and, per node, `N.pem` with its chain and key. Each agent claims again and again,
beats as often as it is told to, and ships its metrics once a minute. Writes lines: `claiming <when>` and
`beat <when>` once every agent's claim waits, and every agent's heartbeat was answered, since the last mark;
`task <id> <when>` for each envelope. Reads lines: `mark`. Times are of the monotonic clock all processes share."""

import asyncio
import base64
import random
import ssl
import sys
from pathlib import Path
from uuid import UUID

import msgspec
import uvloop

from gpuaas.client.agent import AgentApi
from gpuaas.client.errors import ApiError, ClientError
from gpuaas.contracts.http.agent import MAX_WAIT_SECONDS, Claim, Heartbeat, Sample, TellMetrics
from gpuaas.kit import clock, dsse
from gpuaas.kit.ids import new_id
from gpuaas.processes.agent.backoff import Backoff

CONNECT_AT_ONCE = 32
SHIP_SECONDS, SAMPLES = 60.0, 4
VALUES = {f"gpu{gpu}.{what}": 42.5 for gpu in range(8) for what in ("temperature", "power", "used", "memory")}
SENT_SECONDS = 0.25
"""A claim that was not answered within so long waits at the server."""


class Told(msgspec.Struct):
    task_id: UUID
    sequence: int


class Tally:
    """Who has been heard since the last mark."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._heard: dict[str, set[int]] = {"claiming": set(), "beat": set()}
        self.errors = 0

    def mark(self) -> None:
        for heard in self._heard.values():
            heard.clear()

    def note(self, what: str, node: int) -> None:
        heard = self._heard[what]
        if node in heard:
            return
        heard.add(node)
        if len(heard) == self._nodes:
            say(f"{what} {clock.monotonic()}")

    def failed(self, error: Exception) -> None:
        self.errors += 1
        if self.errors <= 3:
            sys.stderr.write(f"agents_load: {error}\n")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class BareAgent:
    def __init__(self, number: int, api: AgentApi, tally: Tally) -> None:
        self._number, self._api, self._tally = number, api, tally
        self._next = 1

    async def claim_forever(self) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._claim()
                backoff.reset()
            except (ApiError, ClientError) as error:
                self._tally.failed(error)
                await asyncio.sleep(backoff.next())

    async def _claim(self) -> None:
        asked = asyncio.create_task(self._api.claim(Claim(next_sequence=self._next, wait_seconds=MAX_WAIT_SECONDS)))
        done, _ = await asyncio.wait({asked}, timeout=SENT_SECONDS)
        if not done:
            self._tally.note("claiming", self._number)
        claimed = await asked
        at = clock.monotonic()
        for envelope in claimed.envelopes:
            payload = msgspec.json.decode(envelope, type=dsse.Envelope).payload
            told = msgspec.json.decode(base64.b64decode(payload), type=Told)
            if told.sequence >= self._next:
                self._next = told.sequence + 1
                say(f"task {told.task_id} {at}")

    async def ship_forever(self) -> None:
        backoff = Backoff()
        await asyncio.sleep(random.random() * SHIP_SECONDS)
        while True:
            samples = [Sample(at=clock.now(), values=VALUES) for _ in range(SAMPLES)]
            try:
                await self._api.metrics(TellMetrics(batch_id=new_id(), samples=samples))
                backoff.reset()
                await asyncio.sleep(SHIP_SECONDS)
            except (ApiError, ClientError) as error:
                self._tally.failed(error)
                await asyncio.sleep(backoff.next())

    async def beat_forever(self) -> None:
        backoff, pause = Backoff(), 5.0
        await asyncio.sleep(random.random() * pause)  # as agents started one after the other
        while True:
            try:
                beat = Heartbeat(
                    boot_id="b8d6e2a4-5d1e-4c5e-9f58-0d5d7f2f3a11",
                    agent_version="0.1.0",
                    next_sequence=self._next,
                    sent_at=clock.now(),
                    generation=1,
                )
                pause = (await self._api.heartbeat(beat)).heartbeat_seconds
                self._tally.note("beat", self._number)
                backoff.reset()
                await asyncio.sleep(pause)
            except (ApiError, ClientError) as error:
                self._tally.failed(error)
                await asyncio.sleep(backoff.next())


async def run(url: str, folder: Path, nodes: int) -> None:
    tally, turns = Tally(nodes), asyncio.Semaphore(CONNECT_AT_ONCE)

    async def live(number: int) -> None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.load_verify_locations(cafile=folder / "ca.pem")
        tls.load_cert_chain(folder / f"{number}.pem")
        agent = BareAgent(number, AgentApi(url, tls), tally)
        async with turns:  # the first time in turns; when they come back, their back-off is all there is
            first = asyncio.create_task(agent.claim_forever())
            await asyncio.sleep(0.05)
        await asyncio.gather(first, agent.beat_forever(), agent.ship_forever())

    async def listen() -> None:
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            if line.strip() == b"mark":
                tally.mark()
        say(f"errors {tally.errors}")
        sys.exit(0)  # nobody listens any more

    await asyncio.gather(listen(), *(live(number) for number in range(nodes)))


def main() -> None:
    url, folder, nodes = sys.argv[1:4]
    uvloop.run(run(url, Path(folder), int(nodes)))


if __name__ == "__main__":
    main()
