"""The contract of events, printed from the event types: AsyncAPI 3.0, exact. An event that is not in it cannot be
emitted, because declaring its type is what puts it here."""

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

import gpuaas
from gpuaas.contracts import events
from gpuaas.contracts.events.base import EVENT_TYPES, Envelope, Event
from gpuaas.infra.nats.publish import CORRELATION, MESSAGE_ID, TRACEPARENT

REF = "#/components/schemas/{name}"
_HOME = f"{events.__name__}."
_HEADERS = {
    "type": "object",
    "required": [MESSAGE_ID],
    "properties": {
        MESSAGE_ID: {
            "type": "string",
            "description": "The event's id; with a suffix when it is sent again because it was lost.",
        },
        CORRELATION: {"type": "string", "description": "Names the request or timer that caused the event."},
        TRACEPARENT: {"type": "string", "description": "W3C trace context of the cause."},
    },
}


def event_types() -> list[type[Event]]:
    """All of the contract's types, whether or not somebody has imported them yet."""
    for path in sorted(Path(events.__file__ or "").parent.glob("[a-z]*.py")):
        import_module(_HOME + path.stem)
    ours = (kind for kind in EVENT_TYPES.values() if kind.__module__.startswith(_HOME))
    return sorted(ours, key=lambda kind: (kind.STREAM, kind.NAME))


def document() -> dict[str, Any]:
    """The whole contract as a JSON object, in a stable order."""
    types = event_types()
    (envelope, *payloads), schemas = msgspec.json.schema_components([Envelope, *types], ref_template=REF)
    del envelope
    form = schemas.pop(Envelope.__name__)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "GPUaaS events",
            "version": gpuaas.__version__,
            "license": {"name": "Apache-2.0"},
            "description": "What happened, told over NATS JetStream. Events arrive at least once and in any order; "
            "`id` is the same each time. A message is a hint: the books are in PostgreSQL.",
        },
        "defaultContentType": "application/json",
        "channels": {kind.NAME: _channel(kind) for kind in types},
        "operations": {f"tell.{kind.NAME}": _operation(kind) for kind in types},
        "components": {
            "messages": {
                kind.NAME: _message(kind, form, payload) for kind, payload in zip(types, payloads, strict=True)
            },
            "schemas": dict(sorted(schemas.items())),
        },
    }


def _channel(kind: type[Event]) -> dict[str, Any]:
    return {
        "address": kind.nats_subject(),
        "description": f"In the stream {kind.STREAM.value}.",
        "messages": {kind.NAME: {"$ref": f"#/components/messages/{kind.NAME}"}},
    }


def _operation(kind: type[Event]) -> dict[str, Any]:
    return {
        "action": "send",
        "channel": {"$ref": f"#/channels/{kind.NAME}"},
        "messages": [{"$ref": f"#/channels/{kind.NAME}/messages/{kind.NAME}"}],
    }


def _message(kind: type[Event], form: dict[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    """The envelope with this event in it."""
    properties = form["properties"] | {
        "name": {"const": kind.NAME},
        "version": {"const": kind.VERSION},
        "payload": payload,
        "occurred_at": {"type": "string", "format": "date-time"},
    }
    said = kind.__dict__.get("__doc__") or ""
    summary = inspect.cleandoc(said).partition("\n")[0]
    return {
        "name": kind.NAME,
        "title": kind.__name__,
        **({"summary": summary} if summary else {}),
        "contentType": "application/json",
        "headers": _HEADERS,
        "payload": {
            **{key: form[key] for key in ("type", "required")},
            "title": kind.__name__,
            "properties": properties,
        },
    }
