"""Events about events that could not be handled: stream DLQ. They hint; the dead letter itself is a row."""

from uuid import UUID

from gpuaas.contracts.events.base import Event, Stream


class DeadLetterOpened(Event, frozen=True, kw_only=True):
    NAME = "dead_letter.opened"
    STREAM = Stream.DLQ
    dead_letter_id: UUID
    consumer: str
    event_id: UUID
    event_name: str
    attempts: int
