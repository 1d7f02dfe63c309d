"""The life of a payment. `due_at` is the moment: the deadlines here are the longest there may be. Money that arrives
late is credited all the same: who paid has paid."""

from datetime import timedelta

from gpuaas.contracts.http.payments import PaymentState
from gpuaas.kit.life import Life, exits, minutes

CREATED_LASTS = minutes(15)
LATE = timedelta(hours=1)
"""After its page is closed at the provider: notices may be late."""
SLOW_LASTS = timedelta(days=21)
"""For ways to pay that take days."""

S = PaymentState
_BACK = (S.PARTIALLY_REFUNDED, S.REFUNDED, S.DISPUTED)
LIFE = Life(
    {
        S.CREATED: exits(
            S.OPEN,
            S.SUCCEEDED,
            S.FAILED,
            S.EXPIRED,
            S.FAILED_RECONCILE,
            deadline=CREATED_LASTS,
            on_deadline=S.FAILED,
        ),
        S.OPEN: exits(S.SUCCEEDED, S.FAILED, S.EXPIRED, S.FAILED_RECONCILE, deadline=SLOW_LASTS, on_deadline=S.EXPIRED),
        S.SUCCEEDED: exits(*_BACK, rests="it is paid; it changes if money goes back"),
        S.PARTIALLY_REFUNDED: exits(
            S.SUCCEEDED, S.REFUNDED, S.DISPUTED, rests="a part is paid; it changes if more goes back"
        ),
        S.REFUNDED: exits(
            S.SUCCEEDED, S.PARTIALLY_REFUNDED, S.DISPUTED, rests="it changes if a refund does not arrive"
        ),
        S.DISPUTED: exits(
            S.SUCCEEDED, S.PARTIALLY_REFUNDED, S.REFUNDED, rests="the banks decide, in weeks; a lost dispute stays"
        ),
        S.FAILED: exits(S.SUCCEEDED, S.FAILED_RECONCILE, rests="money that arrives late is credited"),
        S.EXPIRED: exits(S.SUCCEEDED, S.FAILED_RECONCILE, rests="money that arrives late is credited"),
        S.FAILED_RECONCILE: exits(S.SUCCEEDED, rests="an operator looks, and accepts what was taken, or does not"),
    },
    of="payments",
)
PAID = frozenset({S.SUCCEEDED, *_BACK})
