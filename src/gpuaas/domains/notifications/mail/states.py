"""The life of an email. It is tried until its server takes it, refuses it for good, or two days are over."""

from datetime import timedelta

from gpuaas.contracts.http.notifications import EmailState
from gpuaas.kit.life import Life, exits, terminal

LASTS = timedelta(days=2)
"""Older news than this is not mailed any more; the notification itself stays."""

S = EmailState
LIFE = Life(
    {
        S.QUEUED: exits(S.SENT, S.FAILED, S.NOT_CONFIGURED, deadline=LASTS, on_deadline=S.FAILED),
        S.NOT_CONFIGURED: exits(S.QUEUED, S.FAILED, deadline=LASTS, on_deadline=S.FAILED),
        S.SENT: terminal,
        S.FAILED: exits(S.QUEUED, rests="an operator, who mends the cause and has it tried again"),
    },
    of="emails",
)
