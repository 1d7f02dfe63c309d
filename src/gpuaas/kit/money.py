"""Amounts of money: whole micro-units (millionths) of a currency, as integers.

Always holds: no amount passes through a float; what a person writes is taken exactly, or not at all; what is printed
has at least two places and never drops one that counts."""

import re

MICROS = 1_000_000
MAX_MICROS = 1_000_000_000_000_000
"""A milliard of the currency: more than this in one amount is a mistake."""
DEFAULT_CURRENCY = "USD"
_WRITTEN = re.compile(r"^([+-]?)([0-9]{1,10})(?:\.([0-9]{1,6}))?$")


class NotAnAmount(ValueError):
    """What was written is no amount of money, or too large or too fine."""


def parse_micros(text: str) -> int:
    """`12.50` as 12500000. At most six places; no other way to write it."""
    found = _WRITTEN.match(text)
    if found is None or text.endswith("\n"):
        raise NotAnAmount(f"{text!r} is not an amount such as 12.50")
    sign, whole, places = found[1], found[2], found[3] or ""
    micros = int(whole) * MICROS + int(places.ljust(6, "0"))
    if micros > MAX_MICROS:
        raise NotAnAmount(f"{text} is too large")
    return -micros if sign == "-" else micros


def format_micros(micros: int, currency: str = "") -> str:
    """12500000 as `12.50`, with the currency after it if it is given."""
    whole, rest = divmod(abs(micros), MICROS)
    places = f"{rest:06d}"
    places = places[:2] + places[2:].rstrip("0")
    sign = "-" if micros < 0 else ""
    return f"{sign}{whole}.{places} {currency}".rstrip()
