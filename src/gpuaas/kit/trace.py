"""Traces: one W3C trace context from request through outbox, relay and consumer. Without an exporter configured a trace
context still travels, at the price of a few random bytes; with one, spans are recorded and shipped."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_current: ContextVar[str] = ContextVar("traceparent", default="")
_WELL_FORMED = re.compile(r"^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$")


class _Recording:
    """Set once, by `configure`."""

    tracer: Any = None
    provider: Any = None


def configure(program: str, endpoint: str) -> None:
    """Ship spans to an OTLP endpoint. Called once, by a program's main; no endpoint, no spans."""
    if not endpoint:
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": f"gpuaas-{program}"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint.rstrip("/") + "/v1/traces")))
    _Recording.tracer, _Recording.provider = provider.get_tracer("gpuaas"), provider


def shutdown() -> None:
    if _Recording.provider is not None:
        _Recording.provider.shutdown()


def traceparent() -> str:
    """The current trace context, as the header is written; begun here if nothing began it yet."""
    current = _current.get()
    if not current:
        random = os.urandom(24).hex()
        current = f"00-{random[:32]}-{random[32:]}-01"
        _current.set(current)
    return current


def enter(incoming: str = "") -> None:
    """Continue the trace that came in, if one did."""
    continued = incoming if incoming and _WELL_FORMED.match(incoming) else ""
    if continued or _current.get():
        _current.set(continued)


def recording() -> bool:
    """Whether spans are kept at all."""
    return _Recording.tracer is not None


@contextmanager
def span(name: str, **attributes: str | int) -> Iterator[None]:
    """A piece of work inside the current trace."""
    if _Recording.tracer is None:
        yield
        return
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    propagator = TraceContextTextMapPropagator()
    parent = propagator.extract({"traceparent": traceparent()})
    with _Recording.tracer.start_as_current_span(name, context=parent, attributes=attributes):
        carrier: dict[str, str] = {}
        propagator.inject(carrier)
        token = _current.set(carrier.get("traceparent", _current.get()))
        try:
            yield
        finally:
            _current.reset(token)
