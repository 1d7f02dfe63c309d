"""The printed contract of events: every type is in it, every reference leads somewhere, and it says what is sent."""

import re

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuaas.contracts.events.base import Envelope, Event
from gpuaas.infra.asyncapi import document, event_types
from gpuaas.kit import clock
from gpuaas.kit.ids import EventId, new_id

DOCUMENT = document()
TYPES = {kind.NAME: kind for kind in event_types()}


def test_every_event_type_has_its_channel_operation_and_message() -> None:
    assert DOCUMENT["asyncapi"] == "3.0.0"
    assert set(DOCUMENT["channels"]) == set(DOCUMENT["components"]["messages"]) == set(TYPES)
    assert {f"tell.{name}" for name in TYPES} == set(DOCUMENT["operations"])
    addresses = [channel["address"] for channel in DOCUMENT["channels"].values()]
    assert len(set(addresses)) == len(addresses)


def test_every_reference_leads_somewhere_and_every_key_is_allowed() -> None:
    for ref in re.findall(r'"\$ref":"#/([^"]+)"', msgspec.json.encode(DOCUMENT).decode()):
        found = DOCUMENT
        for step in ref.split("/"):
            found = found[step]
    for part in DOCUMENT["components"].values():
        assert all(re.fullmatch(r"[a-zA-Z0-9.\-_]+", key) for key in part)


@pytest.mark.parametrize("name", sorted(TYPES))
def test_what_is_sent_is_what_is_printed(name: str) -> None:
    kind = TYPES[name]
    schema = DOCUMENT["components"]["messages"][name]["payload"] | {"components": DOCUMENT["components"]}
    check = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    events = st.builds(kind, **{field.name: st.from_type(field.type) for field in msgspec.structs.fields(kind)})

    @settings(max_examples=15, deadline=None, database=None)
    @given(events)
    def holds(event: Event) -> None:
        envelope = Envelope(
            id=EventId(new_id()),
            name=kind.NAME,
            version=kind.VERSION,
            occurred_at=clock.now(),
            org_id=None,
            subject_id=new_id(),
            actor="system:test",
            correlation_id="c",
            traceparent="",
            payload=msgspec.Raw(msgspec.json.encode(event)),
        )
        sent = msgspec.json.decode(msgspec.json.encode(envelope))
        assert [error.message for error in check.iter_errors(sent)] == []
        for wrong in (sent | {"name": "other"}, sent | {"payload": {}}, {**sent, "id": 1}):
            assert not check.is_valid(wrong)

    holds()
