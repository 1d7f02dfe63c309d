"""The life of a hold on money. `due_at` is the moment; the deadline here is the longest there may be."""

from datetime import timedelta

from gpuaas.contracts.http.billing import MoneyHoldState
from gpuaas.kit.life import Life, exits, terminal

LONGEST = timedelta(days=400)

S = MoneyHoldState
LIFE = Life(
    {
        S.OPEN: exits(S.CAPTURED, S.VOIDED, S.EXPIRED, deadline=LONGEST, on_deadline=S.EXPIRED),
        S.CAPTURED: terminal,
        S.VOIDED: terminal,
        S.EXPIRED: terminal,
    },
    of="ledger_holds",
)
