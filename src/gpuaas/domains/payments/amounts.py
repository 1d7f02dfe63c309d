"""Between our millionths and the hundredths in which providers count. Exactly, or not at all."""

from gpuaas.contracts.error_codes import Code
from gpuaas.kit.errors import Detail, Refused
from gpuaas.kit.money import format_micros

MICROS_PER_CENT = 10_000
# Currencies without hundredths, or with thousandths: providers count them otherwise.
_NO_CENTS = frozenset(
    {
        "BHD",
        "BIF",
        "CLP",
        "DJF",
        "GNF",
        "IQD",
        "ISK",
        "JOD",
        "JPY",
        "KMF",
        "KRW",
        "KWD",
        "LYD",
        "MGA",
        "OMR",
        "PYG",
        "RWF",
        "TND",
        "UGX",
        "VND",
        "VUV",
        "XAF",
        "XOF",
        "XPF",
    }
)


def cents_of(amount_micros: int, currency: str) -> int:
    if currency in _NO_CENTS:
        raise Refused(
            Code.PAYMENT_CURRENCY_REFUSED,
            "Payments are taken in currencies with two decimal places.",
            details=[Detail("currency", "has not two decimal places")],
        )
    cents, rest = divmod(amount_micros, MICROS_PER_CENT)
    if rest:
        raise Refused(
            Code.PAYMENT_AMOUNT_REFUSED,
            f"{format_micros(amount_micros, currency)} is no whole number of hundredths.",
            details=[Detail("amount_micros", "not in whole hundredths")],
        )
    return cents


def micros_of(cents: int) -> int:
    return cents * MICROS_PER_CENT


def check_limits(amount_micros: int, currency: str, *, least: int, most: int) -> None:
    if not least <= amount_micros <= most:
        raise Refused(
            Code.PAYMENT_AMOUNT_REFUSED,
            f"A payment is of {format_micros(least, currency)} to {format_micros(most, currency)}.",
            details=[Detail("amount_micros", "out of the limits")],
        )
