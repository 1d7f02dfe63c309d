"""An amount in a currency's smallest unit, as people write it."""

# As Stripe counts them.
WITHOUT_DECIMALS = frozenset(
    {"bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "ugx", "vnd"} | {"vuv", "xaf", "xof", "xpf"}
)
THREE_DECIMALS = frozenset(["bhd", "jod", "kwd", "omr", "tnd"])


def written(amount: int, currency: str) -> str:
    """1250, usd → 12.50 USD."""
    places = 0 if currency in WITHOUT_DECIMALS else 3 if currency in THREE_DECIMALS else 2
    whole, part = divmod(amount, 10**places)
    return f"{whole:,}{f'.{part:0{places}}' if places else ''} {currency.upper()}"
