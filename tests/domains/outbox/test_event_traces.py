"""One trace from the change through the relay to the reaction, as OpenTelemetry records it."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gpuaas.contracts.events.platform import ProjectUpdated
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import trace
from gpuaas.kit.ids import new_id
from tests.support.events import EVERYTHING, Stage, eventually
from tests.support.servers import DatabaseUrls


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace._Recording, "tracer", provider.get_tracer("test"))
    yield exporter
    provider.shutdown()


async def test_the_spans_of_change_relay_and_reaction_hang_below_each_other(
    database: DatabaseUrls, nats_url: str, db: Database, spans: InMemorySpanExporter
) -> None:
    stage = await Stage.on(database, nats_url, db)
    stage.record("test.traced")
    trace.enter()
    with trace.span("change"):
        async with db.transaction(EVERYTHING, "system:test") as tx:
            event = tx.emit(ProjectUpdated(project_id=new_id()))
    trace.enter()

    async def recorded() -> bool:
        return any(span.name == "react test.traced" for span in spans.get_finished_spans())

    async with stage.relay(), stage.worker():
        await stage.wait_handled("test.traced", {event}, seconds=15)
        await eventually(recorded)
    change, publish, react = (
        next(span for span in spans.get_finished_spans() if span.name == name)
        for name in ("change", "publish project.updated", "react test.traced")
    )
    assert change.context is not None
    assert publish.context is not None
    assert publish.parent is not None
    assert react.parent is not None
    assert publish.parent.span_id == change.context.span_id
    assert react.parent.span_id == publish.context.span_id
    assert react.context is not None
    assert react.context.trace_id == change.context.trace_id
