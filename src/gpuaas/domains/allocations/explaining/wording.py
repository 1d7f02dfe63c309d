"""Instants, spans, money and lists as an explanation says them. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

MAX_LISTED = 8
_MICROS = 1_000_000
_CENT = 10_000
_SPANS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def at(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M} UTC"


def lasting(span: timedelta) -> str:
    """In its two largest units: '3 hours', '1 day 4 hours', '20 seconds'. Rounded, so that a day less a second is a
    day."""
    left = max(round(span.total_seconds()), 0)
    for (size, unit), (smaller, name) in pairwise(_SPANS):
        if round(left / smaller) * smaller < size:
            continue
        count, more = divmod(round(left / smaller), size // smaller)
        return f"{number(count, unit)} {number(more, name)}" if more else number(count, unit)
    return number(left, "second") if left else "less than a second"


def until(instant: datetime, now: datetime) -> str:
    """'2026-03-01 12:00 UTC, in 3 hours'; a moment that has passed is only named."""
    return f"{at(instant)}, in {lasting(instant - now)}" if instant > now else at(instant)


def number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def money(currency: str, micros: int) -> str:
    """To the cent, or exactly where a cent is too coarse to say anything."""
    if micros and (micros < _CENT or micros % _CENT):
        return f"{micros / _MICROS:.6f}".rstrip("0").ljust(4, "0") + f" {currency}"
    return f"{micros // _MICROS}.{micros % _MICROS // _CENT:02} {currency}"


def about(currency: str, micros: int) -> str:
    """Rounded to the cent."""
    cents = (micros + _CENT // 2) // _CENT
    return f"{cents // 100}.{cents % 100:02} {currency}"


def listed(words: Sequence[str]) -> str:
    shown = list(dict.fromkeys(words))
    more = f" and {len(shown) - MAX_LISTED} more" if len(shown) > MAX_LISTED else ""
    return ", ".join(shown[:MAX_LISTED]) + more


def sentence(text: str, *, capital: bool = True) -> str:
    """With a full stop at its end and, where it begins one, a capital letter."""
    text = text.strip()
    if not text:
        return ""
    return (text[0].upper() if capital else text[0]) + text[1:] + ("" if text[-1] in ".!?" else ".")
