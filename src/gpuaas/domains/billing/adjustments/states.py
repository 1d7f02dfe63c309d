"""The life of an adjustment. One that is small enough is posted as it is asked for."""

from datetime import timedelta

from gpuaas.contracts.http.billing import AdjustmentState
from gpuaas.kit.life import Life, exits, terminal

PROPOSAL_LASTS = timedelta(days=7)

S = AdjustmentState
LIFE = Life(
    {
        S.PROPOSED: exits(S.POSTED, S.REJECTED, S.EXPIRED, deadline=PROPOSAL_LASTS, on_deadline=S.EXPIRED),
        S.POSTED: terminal,
        S.REJECTED: terminal,
        S.EXPIRED: terminal,
    },
    of="ledger_adjustments",
)
