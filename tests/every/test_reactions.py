"""Every reaction there is, for every event it hears: delivered three times it has one effect, and its failure leaves
nothing behind."""

import base64

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st

from gpuaas.contracts.events.base import Event
from gpuaas.domains import load_handlers
from gpuaas.domains.outbox import service
from gpuaas.domains.outbox.service import Outcome
from gpuaas.infra.events import HANDLERS, Reaction
from gpuaas.infra.nats.bus import Bus
from gpuaas.infra.nats.publish import Publisher
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.parts import Parts
from gpuaas.processes.settings import Settings
from gpuaas.processes.worker.assembly import assemble
from tests.support.events import EVERYTHING

load_handlers()
HEARD = [(reaction, kind) for reaction in HANDLERS.reactions() for kind in reaction.events]


@pytest.fixture(scope="module")
async def parts(db: Database, nats_url: str) -> Parts:
    """As the worker has them."""
    bus = Bus(nats_url, "test")
    key = base64.b64encode(b"k" * 32).decode()
    found, _ = assemble(
        Settings(database_url=db.url, nats_url=nats_url, master_key=key, public_url="http://127.0.0.1"),
        db,
        bus,
        Publisher(bus),
    )
    return found


def example(kind: type[Event]) -> Event:
    fields = {field.name: st.from_type(field.type) for field in msgspec.structs.fields(kind)}
    quick = settings(max_examples=1, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))
    return find(st.builds(kind, **fields), lambda _: True, settings=quick)


@pytest.mark.parametrize(("reaction", "kind"), HEARD, ids=[f"{r.name}-{k.NAME}" for r, k in HEARD])
async def test_every_event_delivered_three_times_is_handled_once(
    db: Database, parts: Parts, reaction: Reaction, kind: type[Event]
) -> None:
    async with db.transaction(EVERYTHING, "system:test") as tx:
        event_id = tx.emit(example(kind))
    outcomes = [await service.event_handle(db, reaction, event_id, None, parts) for _ in range(3)]
    assert outcomes == [Outcome.HANDLED, Outcome.NOT_OURS, Outcome.NOT_OURS]
    async with db.read(EVERYTHING) as tx:
        rows = await tx.rows("SELECT consumer FROM inbox WHERE event_id = $1", event_id)
    assert [row["consumer"] for row in rows] == [reaction.name]


def test_there_is_something_to_test() -> None:
    assert HEARD
