"""What is said of payments: what arrived, what did not, and what went back."""

from gpuaas.contracts.events.payments import (
    PaymentDisputed,
    PaymentExpired,
    PaymentFailed,
    PaymentMismatched,
    PaymentRefunded,
    PaymentSucceeded,
    RefundFailed,
)
from gpuaas.domains.notifications.words import Facts, Words, money, words


def succeeded(event: PaymentSucceeded, facts: Facts) -> Words:
    return words(
        f"{facts.org}: {money(event.amount_micros, event.currency)} was paid in",
        "Thank you. It is in the balance.",
        organisation=facts.org,
        balance=money(event.balance_micros, event.currency),
    )


def failed(event: PaymentFailed, facts: Facts) -> Words:
    return words(
        f"{facts.org}: a payment of {money(event.amount_micros, event.currency)} failed",
        f"The reason: {event.reason}.",
        "Nothing was charged. You can try again, or pay in another way.",
        organisation=facts.org,
    )


def expired(event: PaymentExpired, facts: Facts) -> Words:
    return words(
        f"{facts.org}: a payment of {money(event.amount_micros, event.currency)} has expired",
        "It was cancelled, or nobody paid in time. Nothing was charged.",
        organisation=facts.org,
    )


def refunded(event: PaymentRefunded, facts: Facts) -> Words:
    spent = event.uncovered_micros
    return words(
        f"{facts.org}: {money(event.amount_micros, event.currency)} is refunded",
        "It goes back the way it was paid, which can take a few days.",
        f"{money(spent, event.currency)} of it was spent already: the balance is short of it." if spent else "",
        organisation=facts.org,
    )


def refund_failed(event: RefundFailed, facts: Facts) -> Words:
    return words(
        f"{facts.org}: a refund of {money(event.amount_micros, event.currency)} did not arrive",
        f"The reason: {event.reason}.",
        "The amount is in the balance again.",
        organisation=facts.org,
    )


def disputed(event: PaymentDisputed, facts: Facts) -> Words:
    spent = event.uncovered_micros
    return words(
        f"{facts.org}: a payment of {money(event.amount_micros, event.currency)} is disputed",
        f"The bank of whoever paid asks for it back; the dispute is {event.outcome}.",
        f"{money(spent, event.currency)} of it was spent already: the balance is short of it." if spent else "",
        organisation=facts.org,
    )


def mismatched(event: PaymentMismatched, facts: Facts) -> Words:
    return words(
        f"{facts.org}: a payment is being looked into",
        f"{money(event.taken_micros, event.taken_currency)} was paid where "
        f"{money(event.amount_micros, event.currency)} was asked for. It is not in the balance yet: an operator looks "
        "into it, and there is nothing you have to do.",
        organisation=facts.org,
    )
