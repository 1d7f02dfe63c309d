"""A worker killed in the middle of sending mail: whatever it had sent comes again with the same Message-ID, what it had
not is sent by the next one, and nothing is sent a third time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from gpuaas.infra.embedded.nats import EmbeddedNats
from gpuaas.infra.postgres.database import Database
from tests.domains.notifications.test_notifications import standing
from tests.support.events import eventually
from tests.support.post_office import EVERYTHING, SENDER, PostOffice, post_office
from tests.support.programs import ProgramProcess
from tests.support.servers import DatabaseUrls, clone

EVENTS = 10
Start = Callable[[str], ProgramProcess]


@pytest.fixture
async def urls(template: DatabaseUrls) -> AsyncIterator[DatabaseUrls]:
    async with clone(template) as made:
        yield made


@pytest.fixture
async def office(urls: DatabaseUrls) -> AsyncIterator[PostOffice]:
    db = Database(urls.app)
    await db.open()
    async with post_office(db) as made:
        yield made
    await db.close()


@pytest.fixture
def start(urls: DatabaseUrls, own_nats: EmbeddedNats, office: PostOffice, tmp_path: Path) -> Iterator[Start]:
    made: list[ProgramProcess] = []

    def start_one(name: str) -> ProgramProcess:
        program = ProgramProcess(name, urls.app, own_nats.url, tmp_path / f"{name}{len(made)}.log")
        program.settings |= {"GPUAAS_SMTP_URL": office.box.url, "GPUAAS_MAIL_FROM": SENDER}
        made.append(program)
        return program.start()

    yield start_one
    for program in made:
        program.kill()


async def test_a_worker_killed_after_the_server_took_a_message_has_it_sent_again_and_nothing_else(
    office: PostOffice, start: Start
) -> None:
    killed = asyncio.Event()
    start("relay")
    worker = start("worker")
    await worker.wait_ready()

    async def meanwhile(to: str) -> None:
        """The message is here; whoever sent it will never know."""
        if len(office.box.taken) >= EVENTS // 2 and not killed.is_set():
            worker.kill()
            killed.set()

    office.box.meanwhile = meanwhile
    for _ in range(EVENTS):
        await office.tell(standing(), times=0)  # the relay and the worker do the rest
    await asyncio.wait_for(killed.wait(), 60)
    async with office.db.transaction(EVERYTHING, "test") as tx:
        claimed = await tx.run("UPDATE emails SET lease_until = now() WHERE state = 'queued' AND attempts > 0")
    assert claimed >= 1, "what it had in hand is nobody's until its claim is over"
    await start("worker").wait_ready()

    async def all_sent() -> bool:
        async with office.db.read(EVERYTHING) as tx:
            return int(await tx.value("SELECT count(*) FROM emails WHERE state = 'sent'")) == 2 * EVENTS

    await eventually(all_sent, seconds=60)
    by_id: dict[str, set[bytes]] = {}
    for index, (_, raw) in enumerate(office.box.taken):
        by_id.setdefault(office.box.read(index)["Message-ID"], set()).add(raw)
    assert len(by_id) == 2 * EVENTS, "nobody misses one"
    assert all(len(copies) == 1 for copies in by_id.values()), "copies are the same, byte for byte"
    assert 1 <= len(office.box.taken) - len(by_id) <= claimed, "only what was in its hands comes twice"
