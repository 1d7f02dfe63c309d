"""The life of a notice of the payment provider. One that cannot be acted on is a dead letter of its reaction."""

from datetime import timedelta
from enum import StrEnum

from gpuaas.kit.life import Life, exits, terminal

WAITING_LASTS = timedelta(days=7)
"""Longer than a provider goes on telling us what we did not hear."""


class WebhookState(StrEnum):
    STORED = "stored"
    WAITING = "waiting"
    """It says that money went back of a payment which we do not know to be paid yet."""
    ACTED = "acted"
    IGNORED = "ignored"


S = WebhookState
LIFE = Life(
    {
        S.STORED: exits(
            S.ACTED, S.WAITING, S.IGNORED, rests="a reaction acts on it; if it cannot, a dead letter says so"
        ),
        S.WAITING: exits(S.ACTED, S.IGNORED, deadline=WAITING_LASTS, on_deadline=S.IGNORED),
        S.ACTED: terminal,
        S.IGNORED: terminal,
    },
    of="webhook_events",
)
