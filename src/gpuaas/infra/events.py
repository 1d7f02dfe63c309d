"""The declaration of reactions to events, and of timers. What is declared here is all the worker runs.

A reaction runs once per event: its name is its identity in the inbox, so renaming one makes it hear everything again.
Its transaction sees the event's organisation, or the platform when the event has none. Events may arrive in any order.
Always holds: every reaction and timer has a well-formed name of its own; a reaction hears registered types only."""

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from gpuaas.contracts.events.base import EVENT_TYPES, Event, Stream

MAX_ATTEMPTS = 8
HANDLER_SECONDS = 25.0
_NAME = re.compile(r"^[a-z][a-z0-9_]{0,40}\.[a-z][a-z0-9_]{0,60}$")
_REACTION_PARAMETERS = ("tx", "event", "envelope")

React = Callable[..., Awaitable[None]]
R = TypeVar("R", bound=React)


class HandlerDeclarationError(TypeError):
    """A reaction or timer that says too little or contradicts another. The worker does not start with one."""


class Reaction(msgspec.Struct, frozen=True, kw_only=True):
    """`handler(tx, event, envelope)`, and `parts` by name if it asks for them."""

    name: str
    events: tuple[type[Event], ...]
    handler: React
    wants_parts: bool

    @property
    def streams(self) -> tuple[Stream, ...]:
        return tuple(dict.fromkeys(event.STREAM for event in self.events))

    @property
    def event_names(self) -> tuple[str, ...]:
        return tuple(event.NAME for event in self.events)

    def subjects(self, stream: Stream) -> list[str]:
        return sorted(event.nats_subject() for event in self.events if event.STREAM is stream)


class Timer(msgspec.Struct, frozen=True, kw_only=True):
    """`handler(parts)`, run by one worker at a time."""

    name: str
    every_seconds: float
    deadline_seconds: float
    handler: React


class HandlerRegistry:
    """All reactions and timers that were declared, by name."""

    def __init__(self) -> None:
        self._reactions: dict[str, Reaction] = {}
        self._timers: dict[str, Timer] = {}

    def add_reaction(self, reaction: Reaction) -> None:
        self._check_name(reaction.name)
        if not reaction.events:
            raise HandlerDeclarationError(f"reaction {reaction.name} hears nothing")
        for event in reaction.events:
            if EVENT_TYPES.get(getattr(event, "NAME", "")) is not event:
                raise HandlerDeclarationError(f"reaction {reaction.name}: {event!r} is not a registered event type")
        self._reactions[reaction.name] = reaction

    def add_timer(self, timer: Timer) -> None:
        self._check_name(timer.name)
        if timer.every_seconds <= 0 or timer.deadline_seconds <= 0:
            raise HandlerDeclarationError(f"timer {timer.name}: a period and a deadline are more than nothing")
        self._timers[timer.name] = timer

    def reactions(self) -> list[Reaction]:
        return list(self._reactions.values())

    def timers(self) -> list[Timer]:
        return list(self._timers.values())

    def reaction(self, name: str) -> Reaction | None:
        return self._reactions.get(name)

    def _check_name(self, name: str) -> None:
        if not _NAME.match(name):
            raise HandlerDeclarationError(f"{name!r} is not a name: say domain.what_it_does")
        if name in self._reactions or name in self._timers:
            raise HandlerDeclarationError(f"{name} is declared twice")


HANDLERS = HandlerRegistry()


def reaction(
    name: str, *, to: type[Event] | tuple[type[Event], ...], registry: HandlerRegistry = HANDLERS
) -> Callable[[R], R]:
    """Hear an event type, or several. The handler's effect, and what it emits, commit together, once per event."""

    def declare(handler: R) -> R:
        parameters = _parameters(name, handler)
        if parameters[:3] != _REACTION_PARAMETERS or parameters[3:] not in ((), ("parts",)):
            raise HandlerDeclarationError(f"reaction {name}: its parameters are tx, event, envelope and maybe parts")
        registry.add_reaction(
            Reaction(
                name=name,
                events=to if isinstance(to, tuple) else (to,),
                handler=handler,
                wants_parts=len(parameters) > len(_REACTION_PARAMETERS),
            )
        )
        return handler

    return declare


def timer(
    name: str, *, every_seconds: float, deadline_seconds: float = 60.0, registry: HandlerRegistry = HANDLERS
) -> Callable[[R], R]:
    """Run again and again, on one worker at a time; past its deadline a run is cancelled."""

    def declare(handler: R) -> R:
        if _parameters(name, handler) != ("parts",):
            raise HandlerDeclarationError(f"timer {name}: its one parameter is parts")
        registry.add_timer(
            Timer(name=name, every_seconds=every_seconds, deadline_seconds=deadline_seconds, handler=handler)
        )
        return handler

    return declare


def _parameters(name: str, handler: Any) -> tuple[str, ...]:
    if not inspect.iscoroutinefunction(handler):
        raise HandlerDeclarationError(f"{name}: its handler is not async")
    return tuple(inspect.signature(handler).parameters)
