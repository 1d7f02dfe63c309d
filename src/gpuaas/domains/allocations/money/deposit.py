"""How much is set aside for an allocation, and what is said when that is not there: pure."""

from gpuaas.kit.money import MICROS, format_micros

MINUTES_AN_HOUR = 60
_CENT = MICROS // 100


def deposit_micros(micros_per_hour: int, minutes: int) -> int:
    """What so many minutes cost, rounded up: a deposit never falls short by a fraction."""
    return -(-micros_per_hour * minutes // MINUTES_AN_HOUR)


def refusal(*, needed: int, available: int, minutes: int, micros_per_hour: int, currency: str, least: int) -> str:
    """Why it cannot be paid for, and what to do: never a payment below the least that is taken."""
    short = max(least, -(-(needed - available) // _CENT) * _CENT)
    return (
        f"It costs {format_micros(micros_per_hour, currency)} an hour, of which {minutes} minutes are set aside: "
        f"{format_micros(needed, currency)}. Available is {format_micros(available, currency)}. "
        f"Top up {format_micros(short, currency)} or more: gpuaas billing top-up {format_micros(short)}"
    )
