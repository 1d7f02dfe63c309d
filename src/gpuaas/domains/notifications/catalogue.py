"""Every kind of notification: which event it is made of, who hears it, how loud, whether by email, what it says, and
which one click does something about it. A notification of no kind here cannot be made.

Always holds: a kind's name is its own for ever, for preferences name it; what is mandatory is always sent by email."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from gpuaas.contracts.events.allocations import (
    AllocationAbandoned,
    AllocationDegraded,
    AllocationExpiring,
    AllocationFailed,
    AllocationIdle,
    AllocationReleasing,
    AllocationRestored,
    AllocationStarted,
    AllocationStartFailed,
    AllocationStopped,
)
from gpuaas.contracts.events.base import Event
from gpuaas.contracts.events.billing import (
    BalanceAdjusted,
    BudgetReached,
    FaultCredited,
    StandingChanged,
    StandingCountdown,
)
from gpuaas.contracts.events.payments import (
    PaymentDisputed,
    PaymentExpired,
    PaymentFailed,
    PaymentMismatched,
    PaymentRefunded,
    PaymentSucceeded,
    RefundFailed,
)
from gpuaas.contracts.http.allocations import StopReason
from gpuaas.contracts.http.notifications import EmailWhen, Severity
from gpuaas.contracts.http.standing import Rung
from gpuaas.contracts.permissions import ROLE_GRANTS, P, Role
from gpuaas.domains.notifications.wording import allocations, billing, payments
from gpuaas.domains.notifications.words import Facts, Words

SYSTEM = "system:"
CANCELLED = "cancelled"


class Audience(StrEnum):
    MONEY = "money"
    """Who may pay: owners, and those with the billing role."""
    ALLOCATION = "allocation"
    """Who asked for it, and the owners; by email who asked, or the owners where he cannot be told."""


class Offer(msgspec.Struct, frozen=True):
    """What one click does about it: an action of the register of links, and the button's words."""

    action: str
    label: str


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    about: str
    event: type[Event]
    severity: Severity
    audience: Audience
    says: Callable[[Any, Facts], Words]
    email: EmailWhen = EmailWhen.ALWAYS
    mandatory: bool = False
    offer: Offer | None = None
    when: Callable[[Any, Facts], bool] = lambda event, facts: True
    flaps: bool = False
    """It may come and go by the minute, and one email an hour about one thing is enough."""


AUDIENCE_ROLES: dict[Audience, tuple[Role, ...]] = {
    Audience.MONEY: tuple(role for role, grants in ROLE_GRANTS.items() if P.BILLING_MANAGE in grants),
    Audience.ALLOCATION: (Role.OWNER,),
}
TOP_UP = Offer("billing.top_up", "Add money")
EXTEND = Offer("allocation.extend", "Keep it")


def _rung(rung: Rung) -> Callable[[StandingChanged, Facts], bool]:
    return lambda event, facts: event.rung is rung


def _by_itself(event: AllocationReleasing, facts: Facts) -> bool:
    """Not of what its people gave back themselves."""
    return event.forced or facts.released_by.startswith(SYSTEM)


def _for_money(event: AllocationStopped, facts: Facts) -> bool:
    """Who stopped it himself knows."""
    return event.reason is not StopReason.USER


def _money(name: str, about: str, event: type[Event], severity: Severity, says: Any, **more: Any) -> Kind:
    return Kind(name=name, about=about, event=event, severity=severity, audience=Audience.MONEY, says=says, **more)


def _allocation(name: str, about: str, event: type[Event], severity: Severity, says: Any, **more: Any) -> Kind:
    return Kind(name=name, about=about, event=event, severity=severity, audience=Audience.ALLOCATION, says=says, **more)


_ALL = (
    _money(
        "billing.low",
        "The balance lasts for less than a day.",
        StandingChanged,
        Severity.WARNING,
        billing.low,
        offer=TOP_UP,
        when=_rung(Rung.LOW),
    ),
    _money(
        "billing.empty",
        "The balance is used up: new allocations are refused, and what runs will be stopped.",
        StandingChanged,
        Severity.CRITICAL,
        billing.empty,
        offer=TOP_UP,
        mandatory=True,
        when=_rung(Rung.EMPTY),
    ),
    _money(
        "billing.stopped",
        "Allocations are stopped, because the balance is used up.",
        StandingChanged,
        Severity.CRITICAL,
        billing.stopped,
        offer=TOP_UP,
        mandatory=True,
        when=_rung(Rung.STOPPED),
    ),
    _money(
        "billing.released",
        "Allocations are released, because no money came.",
        StandingChanged,
        Severity.CRITICAL,
        billing.released,
        offer=TOP_UP,
        mandatory=True,
        when=_rung(Rung.RELEASED),
    ),
    _money(
        "billing.recovered",
        "The balance is good again.",
        StandingChanged,
        Severity.INFO,
        billing.recovered,
        email=EmailWhen.OFFLINE,
        when=_rung(Rung.GOOD),
    ),
    _money(
        "billing.countdown",
        "How long it is until allocations are stopped, or released.",
        StandingCountdown,
        Severity.CRITICAL,
        billing.countdown,
        offer=TOP_UP,
        mandatory=True,
    ),
    _money(
        "billing.budget",
        "A project has spent a part of its budget, or all of it.",
        BudgetReached,
        Severity.WARNING,
        billing.budget,
    ),
    _money(
        "billing.adjusted",
        "An operator changed the balance.",
        BalanceAdjusted,
        Severity.INFO,
        billing.adjusted,
    ),
    _money(
        "billing.fault_credited",
        "Hardware of an allocation failed, and money was given back for it.",
        FaultCredited,
        Severity.INFO,
        billing.fault_credited,
    ),
    _money(
        "payments.succeeded",
        "A payment arrived.",
        PaymentSucceeded,
        Severity.INFO,
        payments.succeeded,
    ),
    _money(
        "payments.failed",
        "A payment failed.",
        PaymentFailed,
        Severity.WARNING,
        payments.failed,
        offer=TOP_UP,
    ),
    _money(
        "payments.expired",
        "A payment was not paid in time, or cancelled.",
        PaymentExpired,
        Severity.INFO,
        payments.expired,
        email=EmailWhen.NEVER,
    ),
    _money(
        "payments.refunded",
        "Money of a payment goes back.",
        PaymentRefunded,
        Severity.INFO,
        payments.refunded,
    ),
    _money(
        "payments.refund_failed",
        "A refund did not arrive.",
        RefundFailed,
        Severity.WARNING,
        payments.refund_failed,
    ),
    _money(
        "payments.disputed",
        "A bank asks for a payment back.",
        PaymentDisputed,
        Severity.WARNING,
        payments.disputed,
    ),
    _money(
        "payments.mismatched",
        "A payment of another amount arrived than was asked for.",
        PaymentMismatched,
        Severity.WARNING,
        payments.mismatched,
    ),
    _allocation(
        "allocation.idle",
        "Nobody uses an allocation: it will be released.",
        AllocationIdle,
        Severity.WARNING,
        allocations.idle,
        offer=EXTEND,
    ),
    _allocation(
        "allocation.expiring",
        "An allocation's lease ends soon.",
        AllocationExpiring,
        Severity.WARNING,
        allocations.expiring,
        offer=EXTEND,
    ),
    _allocation(
        "allocation.degraded",
        "Something an allocation holds is lost or sick.",
        AllocationDegraded,
        Severity.WARNING,
        allocations.degraded,
        flaps=True,
    ),
    _allocation(
        "allocation.restored",
        "A degraded allocation is whole again.",
        AllocationRestored,
        Severity.INFO,
        allocations.restored,
        email=EmailWhen.NEVER,
    ),
    _allocation(
        "allocation.stopped",
        "An allocation is stopped and kept, and not by its people.",
        AllocationStopped,
        Severity.WARNING,
        allocations.stopped,
        when=_for_money,
    ),
    _allocation(
        "allocation.started",
        "An allocation that was stopped is active again.",
        AllocationStarted,
        Severity.INFO,
        allocations.started,
        email=EmailWhen.OFFLINE,
    ),
    _allocation(
        "allocation.start_failed",
        "An allocation could not be started again.",
        AllocationStartFailed,
        Severity.WARNING,
        allocations.start_failed,
    ),
    _allocation(
        "allocation.failed",
        "An allocation could not be made ready.",
        AllocationFailed,
        Severity.WARNING,
        allocations.failed,
        email=EmailWhen.OFFLINE,
        when=lambda event, facts: event.code != CANCELLED,
    ),
    _allocation(
        "allocation.ended",
        "An allocation is released, and not by its people.",
        AllocationReleasing,
        Severity.WARNING,
        allocations.ended,
        when=_by_itself,
    ),
    _allocation(
        "allocation.abandoned",
        "An allocation could not be released; an operator has to look.",
        AllocationAbandoned,
        Severity.INFO,
        allocations.abandoned,
        email=EmailWhen.NEVER,
    ),
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
EVENTS: tuple[type[Event], ...] = tuple(dict.fromkeys(kind.event for kind in _ALL))


def kind_of(event: Event, facts: Facts) -> Kind | None:
    """The kind an event is told as; None: nobody is told."""
    return next((kind for kind in _ALL if type(event) is kind.event and kind.when(event, facts)), None)
