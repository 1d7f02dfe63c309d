"""Faults on tap, for demonstrations and tests: which are in force, and which request they strike.

They are held in memory: a restart is healthy. What they do to a request: `down` does nothing of it, `slow` does it
late, `lost` does it and never says so."""

from typing import Any, Literal

import msgspec

Seconds = float
HowForged = Literal["wrong_secret", "unsigned", "altered", "old"]


class Control(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do"):
    """One order, as JSON: `{"do": "slow", "seconds": 3}`."""


class Status(Control, frozen=True, tag="status"):
    """Nothing changes; the answer says what is in force."""


class Clear(Control, frozen=True, tag="clear"):
    """Healthy again."""


class RequestFault(Control, frozen=True):
    """Strikes requests whose path begins so, `times` of them; 0: all of them, until cleared."""

    times: int = 0
    method: str = ""
    path: str = "/v1/"


class Down(RequestFault, frozen=True, tag="down"):
    """Nothing is done; the connection is cut, or answered with this status."""

    status: int = 0


class Slow(RequestFault, frozen=True, tag="slow"):
    seconds: Seconds = 1.0


class Lost(RequestFault, frozen=True, tag="lost"):
    """It is done, and the connection is cut in place of the answer: at once, or after so many seconds of silence."""

    seconds: Seconds = 0.0


class Webhooks(Control, frozen=True, tag="webhooks"):
    """How webhooks are sent from now on; what is not given is as usual."""

    paused: bool = False
    copies: int = 1
    reorder_seconds: Seconds = 0.0
    """They are gathered for so long, and sent newest first."""
    aged_seconds: int = 0
    """They are signed as if it were so long ago."""


class Refunds(Control, frozen=True, tag="refunds"):
    """`pending`: a refund is not done at once but waits for `settle_refund`."""

    pending: bool = False


class Forge(Control, frozen=True, tag="forge"):
    """Send a webhook that is not ours; what the receiver answered is in the answer."""

    type: str = "checkout.session.completed"
    about: dict[str, Any] = {}
    how: HowForged = "wrong_secret"


class Pay(Control, frozen=True, tag="pay"):
    """As the page's buttons do."""

    session: str
    how: Literal["card", "declined", "bank", "bank_fails"] = "card"
    seconds: int = 0
    """After how long the bank has decided."""


class SettleRefund(Control, frozen=True, tag="settle_refund"):
    refund: str
    good: bool = True


class OpenDispute(Control, frozen=True, tag="dispute"):
    charge: str
    reason: str = "fraudulent"


class CloseDispute(Control, frozen=True, tag="close_dispute"):
    dispute: str
    won: bool = True


class Later(Control, frozen=True, tag="later"):
    """The provider's clock moves on, for good: sessions expire, banks decide."""

    seconds: int


Order = (
    Status
    | Clear
    | Down
    | Slow
    | Lost
    | Webhooks
    | Refunds
    | Forge
    | Pay
    | SettleRefund
    | OpenDispute
    | CloseDispute
    | Later
)


class Faults:
    def __init__(self) -> None:
        self.webhooks = Webhooks()
        self.refunds = Refunds()
        self._requests: list[tuple[RequestFault, int]] = []

    def add(self, fault: RequestFault) -> None:
        self._requests.append((fault, fault.times))

    def clear(self) -> None:
        self.webhooks, self.refunds = Webhooks(), Refunds()
        self._requests.clear()

    def strike(self, method: str, path: str) -> RequestFault | None:
        """The first fault that fits; it counts one down."""
        for at, (fault, left) in enumerate(self._requests):
            if path.startswith(fault.path) and fault.method.upper() in ("", method):
                if left == 1:
                    del self._requests[at]
                elif left:
                    self._requests[at] = (fault, left - 1)
                return fault
        return None

    def in_force(self) -> list[Control]:
        on: list[Control] = [msgspec.structs.replace(fault, times=left) for fault, left in self._requests]
        return on + [one for one in (self.webhooks, self.refunds) if one not in (Webhooks(), Refunds())]
