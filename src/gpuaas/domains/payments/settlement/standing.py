"""What a payment is, by what went back of it."""

from gpuaas.contracts.http.payments import PaymentState

_TAKEN = frozenset({"opened", "lost"})


def standing(amount_micros: int, refunded_micros: int, dispute: str) -> PaymentState:
    """A dispute that is open or lost says most; then what was refunded."""
    if dispute in _TAKEN:
        return PaymentState.DISPUTED
    if refunded_micros >= amount_micros:
        return PaymentState.REFUNDED
    return PaymentState.PARTIALLY_REFUNDED if refunded_micros else PaymentState.SUCCEEDED
