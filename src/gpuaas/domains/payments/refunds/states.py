"""The life of a refund. One that is small enough is requested as it is asked for."""

from datetime import timedelta

from gpuaas.contracts.http.payments import RefundState
from gpuaas.kit.life import Life, exits, terminal

PROPOSAL_LASTS = timedelta(days=7)
REQUEST_LASTS = timedelta(days=1)
"""As long as the flow may take, and an hour: the wall behind it."""

S = RefundState
LIFE = Life(
    {
        S.PROPOSED: exits(S.REQUESTED, S.REJECTED, S.EXPIRED, deadline=PROPOSAL_LASTS, on_deadline=S.EXPIRED),
        S.REQUESTED: exits(S.SUCCEEDED, S.FAILED, deadline=REQUEST_LASTS, on_deadline=S.FAILED),
        S.SUCCEEDED: exits(S.FAILED, rests="the money is on its way; it may not arrive"),
        S.FAILED: exits(S.SUCCEEDED, rests="if the provider paid it back all the same, that is found and told"),
        S.REJECTED: terminal,
        S.EXPIRED: terminal,
    },
    of="payment_refunds",
)
TAKES = frozenset({S.PROPOSED, S.REQUESTED})
"""They will take of what is left of the payment."""
