"""How a policy's value is decided: pure functions of a key and the overrides above a subject, outermost first.

Always holds: the value is never weaker than a guardrail above it, never out of its key's bounds, and the key's default
when nothing is set."""

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from gpuaas.contracts.policy_keys import Level, PolicyKey, Stricter, Value

DEPTH = {Level.GLOBAL: 0, Level.ORG: 1, Level.PROJECT: 2}


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """What is set at one level, by whom, when and why."""

    level: Level
    value: Value
    guardrail: bool = False
    set_from: Level = Level.GLOBAL
    set_by: str = ""
    set_at: datetime | None = None
    reason: str = ""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The effective value, the level it comes from (None: the default), and the guardrail that cut it, if one did."""

    value: Value
    origin: Level | None = None
    held_by: Level | None = None


class GuardrailBroken(Exception):
    """The value is weaker than a guardrail above it."""

    def __init__(self, guardrail: Layer) -> None:
        super().__init__(f"the guardrail at level {guardrail.level} is {show(guardrail.value)}")
        self.guardrail = guardrail


def strictness(key: PolicyKey, value: Value) -> int:
    """Values of a key in order: the greater, the stricter."""
    match key.stricter:
        case Stricter.HIGHER:
            return int(value)
        case Stricter.LOWER:
            return -int(value)
        case Stricter.ON:
            return 1 if value else 0
        case Stricter.OFF:
            return 0 if value else 1
        case Stricter.LATER:
            return key.choices.index(str(value))


def problem(key: PolicyKey, value: Value) -> str:
    """Why the key cannot have this value; '' when it can."""
    if key.kind is bool:
        return "" if isinstance(value, bool) else "must be true or false"
    if key.kind is str:
        return "" if value in key.choices else f"must be one of {', '.join(key.choices)}"
    if isinstance(value, bool) or not isinstance(value, int):
        return "must be a whole number"
    if not key.minimum <= value <= key.maximum:
        return f"must be from {key.minimum} to {key.maximum} {key.unit}".rstrip()
    return ""


def parse(key: PolicyKey, text: str) -> Value | None:
    """A value written as text, as in a query; None when it is none of this key's."""
    value: Value = text
    if key.kind is bool:
        if text not in {"true", "false"}:
            return None
        value = text == "true"
    elif key.kind is int:
        if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 20):
            return None
        value = int(text)
    return None if problem(key, value) else value


def fit(key: PolicyKey, value: Value) -> Value | None:
    """A stored value as the key takes it today: numbers move into the bounds, anything else foreign counts as unset."""
    if not problem(key, value):
        return value
    if key.kind is int and isinstance(value, int) and not isinstance(value, bool):
        return min(max(value, key.minimum), key.maximum)
    return None


def decide(key: PolicyKey, layers: Iterable[Layer]) -> Decision:
    """The nearest wins, cut by the strictest guardrail above it."""
    decision = Decision(value=key.default)
    bound: Layer | None = None
    for layer in in_order(layers):
        value = fit(key, layer.value)
        if value is None:
            continue
        if bound is not None and strictness(key, value) < strictness(key, bound.value):
            decision = Decision(value=bound.value, origin=layer.level, held_by=bound.level)
            continue
        decision = Decision(value=value, origin=layer.level)
        if layer.guardrail and (bound is None or strictness(key, value) > strictness(key, bound.value)):
            bound = msgspec.structs.replace(layer, value=value)
    return decision


def guardrail_above(key: PolicyKey, layers: Iterable[Layer], level: Level) -> Layer | None:
    """The strictest guardrail that holds at this level."""
    above = [
        msgspec.structs.replace(layer, value=value)
        for layer in in_order(layers)
        if layer.guardrail and DEPTH[layer.level] < DEPTH[level]
        if (value := fit(key, layer.value)) is not None
    ]
    return max(above, key=lambda layer: strictness(key, layer.value), default=None)


def check(key: PolicyKey, layers: Iterable[Layer], wanted: Layer) -> None:
    """Raises GuardrailBroken when what is wanted is weaker than what is held above."""
    held = guardrail_above(key, layers, wanted.level)
    if held is not None and strictness(key, wanted.value) < strictness(key, held.value):
        raise GuardrailBroken(held)


def changed(layers: Sequence[Layer], level: Level, to: Layer | None) -> list[Layer]:
    """The same layers with one set anew, or taken away."""
    kept = [layer for layer in layers if layer.level is not level]
    return in_order([*kept, to] if to is not None else kept)


def in_order(layers: Iterable[Layer]) -> list[Layer]:
    return sorted(layers, key=lambda layer: DEPTH[layer.level])


def show(value: Value) -> str:
    """As people and JSON write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
