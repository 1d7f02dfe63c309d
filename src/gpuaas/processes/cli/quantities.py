"""Money and memory as people write and read them. Always holds: money is read and shown exactly, never through a
binary fraction."""

import re
from decimal import Decimal

from gpuaas.processes.cli.failures import UsageError

MICROS = 1_000_000
_AMOUNT = re.compile(r"^\d{1,7}(\.\d{1,6})?$")
_SIZE = re.compile(r"^(\d{1,7}(?:\.\d{1,3})?) ?(GiB|GB|TiB|TB|)$")
_UNITS = {"GiB": 1 << 30, "GB": 10**9, "TiB": 1 << 40, "TB": 10**12, "": 1 << 30}
_CENTS = 2


def micros(text: str) -> int:
    """3.50 → 3500000."""
    if not _AMOUNT.match(text):
        raise UsageError(f"{text!r} is not an amount of money.", "Write 3.50; six digits after the point at most.")
    return int(Decimal(text) * MICROS)


def money(currency: str, amount: int) -> str:
    """3500000 → 3.50 USD; more digits only where they say something."""
    whole, rest = divmod(abs(amount), MICROS)
    return f"{'-' if amount < 0 else ''}{whole}.{f'{rest:06}'.rstrip('0').ljust(_CENTS, '0')} {currency}"


def memory(text: str) -> int:
    """141GB, 140GiB or 140 (GiB), in bytes."""
    found = _SIZE.match(text)
    if not found:
        raise UsageError(f"{text!r} is not a size.", "Write 141GB or 140GiB.")
    return int(Decimal(found[1]) * _UNITS[found[2]])


def gib(size: int) -> str:
    return f"{size / (1 << 30):.0f} GiB"
