"""The envelope every event travels in, and the register of event types.

An event type is a frozen Struct with a name and a stream; declaring one registers it, so the contract printed from the
register is complete and an event outside of it cannot be emitted."""

from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar
from uuid import UUID

import msgspec

from gpuaas.kit.ids import EventId


class Stream(StrEnum):
    PLATFORM = "PLATFORM"
    BILLING = "BILLING"
    PAYMENTS = "PAYMENTS"
    PROVISIONING = "PROVISIONING"
    APPS = "APPS"
    DLQ = "DLQ"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all event payloads. Payloads carry ids and facts, never secrets."""

    NAME: ClassVar[str] = ""
    STREAM: ClassVar[Stream]
    VERSION: ClassVar[int] = 1

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.NAME:
            raise TypeError(f"event type {cls.__name__} has no NAME")
        known = EVENT_TYPES.setdefault(cls.NAME, cls)
        # msgspec may build a class twice (slots); the same module and name is the same type.
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"event name {cls.NAME} is declared twice")
        EVENT_TYPES[cls.NAME] = cls

    @classmethod
    def nats_subject(cls) -> str:
        return f"{cls.STREAM.lower()}.{cls.NAME}"


EVENT_TYPES: dict[str, type[Event]] = {}


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    id: EventId
    name: str
    version: int
    occurred_at: datetime
    org_id: UUID | None
    subject_id: UUID | None
    actor: str
    correlation_id: str
    traceparent: str
    payload: msgspec.Raw
