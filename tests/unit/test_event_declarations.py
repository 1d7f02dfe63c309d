"""Reactions and timers that say too little are refused, before anything runs."""

import pytest

from gpuaas.contracts.events.base import Envelope, Event
from gpuaas.contracts.events.dlq import DeadLetterOpened
from gpuaas.contracts.events.platform import UserDisabled, UserEnabled
from gpuaas.infra.events import HandlerDeclarationError, HandlerRegistry, reaction, timer
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.parts import Parts


async def hear(tx: Tx, event: Event, envelope: Envelope) -> None: ...
async def hear_with_parts(tx: Tx, event: Event, envelope: Envelope, parts: Parts) -> None: ...
async def tick(parts: Parts) -> None: ...
def not_async(parts: Parts) -> None: ...


@pytest.mark.parametrize("name", ["", "nodomain", "Upper.case", "a.b.c", "a. b", "a.b-c", "x" * 60 + ".y"])
def test_a_name_says_domain_and_deed(name: str) -> None:
    with pytest.raises(HandlerDeclarationError, match="not a name"):
        reaction(name, to=UserDisabled, registry=HandlerRegistry())(hear)
    with pytest.raises(HandlerDeclarationError, match="not a name"):
        timer(name, every_seconds=1, registry=HandlerRegistry())(tick)


def test_a_name_is_taken_once_by_reactions_and_timers_together() -> None:
    registry = HandlerRegistry()
    reaction("a.b", to=UserDisabled, registry=registry)(hear)
    for again in (reaction("a.b", to=UserEnabled, registry=registry), timer("a.b", every_seconds=1, registry=registry)):
        with pytest.raises(HandlerDeclarationError, match="declared twice"):
            again(tick if "timer" in again.__qualname__ else hear)


def test_only_registered_event_types_are_heard() -> None:
    class Impostor:
        NAME = "user.disabled"

    for wrong in (Impostor, Event, ()):
        with pytest.raises(HandlerDeclarationError):
            reaction("a.b", to=wrong, registry=HandlerRegistry())(hear)  # type: ignore[arg-type] # what is refused


def test_a_handler_has_the_parameters_it_is_called_with() -> None:
    registry = HandlerRegistry()
    with pytest.raises(HandlerDeclarationError, match="not async"):
        timer("a.b", every_seconds=1, registry=registry)(not_async)  # type: ignore[type-var] # what is refused
    with pytest.raises(HandlerDeclarationError, match="tx, event, envelope"):
        reaction("a.b", to=UserDisabled, registry=registry)(tick)
    with pytest.raises(HandlerDeclarationError, match="parts"):
        timer("a.b", every_seconds=1, registry=registry)(hear)
    with pytest.raises(HandlerDeclarationError, match="more than nothing"):
        timer("a.b", every_seconds=0, registry=registry)(tick)


def test_a_reaction_may_hear_several_types_of_several_streams() -> None:
    registry = HandlerRegistry()
    reaction("a.b", to=(UserDisabled, UserEnabled, DeadLetterOpened), registry=registry)(hear_with_parts)
    found = registry.reaction("a.b")
    assert found is not None
    assert found.wants_parts
    assert [stream.value for stream in found.streams] == ["PLATFORM", "DLQ"]
    assert found.subjects(found.streams[0]) == ["platform.user.disabled", "platform.user.enabled"]
