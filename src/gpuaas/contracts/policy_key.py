"""What a policy key is: its type, bounds, default, and the direction in which it gets stricter."""

from enum import StrEnum

import msgspec

Value = int | bool | str


class Level(StrEnum):
    """Where a value is set. The nearest to the subject wins, up to the guardrails above it."""

    GLOBAL = "global"
    ORG = "org"
    PROJECT = "project"


class Stricter(StrEnum):
    """Which of two values of a key is the stricter one. Of a choice it is the one listed later."""

    LOWER = "lower"
    HIGHER = "higher"
    ON = "on"
    OFF = "off"
    LATER = "later"


class PolicyKey(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    default: Value
    stricter: Stricter
    description: str
    unit: str = ""
    minimum: int = 0
    maximum: int = 0
    choices: tuple[str, ...] = ()
    levels: frozenset[Level] = frozenset(Level)
    platform_only: bool = False
    """Only the platform sets it, at whatever level: organisations read it."""

    @property
    def kind(self) -> type[int] | type[bool] | type[str]:
        return type(self.default)


def number(
    name: str, default: int, bounds: tuple[int, int], unit: str, stricter: Stricter, description: str
) -> PolicyKey:
    return PolicyKey(
        name=name,
        default=default,
        minimum=bounds[0],
        maximum=bounds[1],
        unit=unit,
        stricter=stricter,
        description=description,
    )


def of_platform(key: PolicyKey) -> PolicyKey:
    """The same key, with one value for the whole installation."""
    return msgspec.structs.replace(key, levels=frozenset({Level.GLOBAL}), platform_only=True)


def by_platform(key: PolicyKey) -> PolicyKey:
    """The same key, set by the platform alone: for all organisations, or for one."""
    return msgspec.structs.replace(key, levels=frozenset({Level.GLOBAL, Level.ORG}), platform_only=True)


def rate(lane: str, per_minute: int, burst: int, whose: str) -> tuple[PolicyKey, PolicyKey]:
    return (
        of_platform(
            number(
                f"rate_limit.{lane}_per_minute",
                per_minute,
                (1, 1_000_000),
                "requests per minute",
                Stricter.LOWER,
                f"How many requests a minute {whose} may send in the {lane} lane.",
            )
        ),
        of_platform(
            number(
                f"rate_limit.{lane}_burst",
                burst,
                (1, 100_000),
                "requests",
                Stricter.LOWER,
                f"How many requests at once {whose} may send in the {lane} lane.",
            )
        ),
    )
