"""The questions that fit an allocation's state, and their answers. Pure: a table of tests reads every sentence.

Always holds: whoever asks is told what happens next and when at the latest, unless it has ended; and nobody else's
names are in an answer."""

from collections.abc import Callable
from datetime import timedelta

from gpuaas.contracts.http.allocations import AllocationExplained, Explanation, Isolation, StopReason
from gpuaas.contracts.policy_keys import Value
from gpuaas.domains.allocations.explaining.facts import Facts
from gpuaas.domains.allocations.explaining.wording import about, at, lasting, listed, money, number, sentence, until
from gpuaas.domains.allocations.states import HOLDS_SLOTS, KEPT, LIVE, HoldState, S

Answer = Callable[[Facts], str]
"""Empty: the question does not fit."""
MAX_CREDITS = 5
_FAILED: dict[str, str] = {
    "cancelled": "Ask again whenever you like.",
    "health_proof_failed": "The GPUs that failed are in quarantine, so the next request gets others: ask again.",
    "node_not_ready": "The node stopped being sold at that moment: ask again, and another is chosen.",
    "capacity_lost": "Its GPUs were taken out of sale at that moment: ask again.",
    "provisioning_overdue": "Ask again; your operator can see what it waited for.",
    "deadline": "The node did not answer in time: ask again; it is given nothing new until it answers.",
    "balance_too_low": "Nothing was charged.",
    "queue_expired": "Ask again, for fewer GPUs or another SKU if it is urgent.",
}
_BY_ITSELF: dict[str, str] = {
    "lease_expired": "its lease had ended and nobody renewed it",
    "idle": "nobody had used its GPUs, and nobody said it is needed after the warning",
    "balance_empty": "the balance was empty, and no money came while it was stopped and kept",
    "budget_spent": "the project's budget was spent, and nobody started it while it was kept",
    "node_lost": "its node was lost, and the policy allocations.node_lost_action says that it ends then",
}
_ASK_AGAIN = "Ask again; if it fails again, tell your operator the allocation's id."


def explained(facts: Facts) -> AllocationExplained:
    answered = [Explanation(question=question, answer=answer(facts)) for question, answer in _QUESTIONS]
    return AllocationExplained(summary=summary(facts), explanations=[told for told in answered if told.answer])


def summary(facts: Facts) -> str:
    """All of it in one sentence."""
    it, state = facts.shown, facts.shown.state
    what = _what(facts)
    match state:
        case S.REQUESTED if facts.place is not None:
            return f"{it.name} waits for {what}, at place {facts.place.position} of {facts.place.waiting}."
        case S.REQUESTED:
            return f"{it.name} waits for {what}."
        case S.PROVISIONING if it.release_requested_at is not None:
            return f"{it.name} was given back before it was ready, and is being taken back."
        case S.PROVISIONING:
            return f"{it.name} is being made ready: {what}{_on(facts)}."
        case S.ACTIVE:
            since = f"active for {lasting(facts.now - (it.active_at or it.state_since))}"
            sick = ", and it is degraded" if it.degraded_since is not None else ""
            return f"{it.name} has {what}{_on(facts)}, {since}{sick}."
        case S.STOPPING:
            return f"{it.name} is being stopped: its login is closed and what runs is ended{_on(facts)}."
        case S.STOPPED:
            return f"{it.name} is stopped; its home and {what}{_on(facts)} are kept."
        case S.STARTING:
            return f"{it.name} is being started again: {what}{_on(facts)}."
        case S.RELEASING:
            return f"{it.name} is being given back: {what}{_on(facts)} are being cleaned and checked."
        case S.RELEASED if _unclean(facts):
            return f"{it.name} was given back; not all of its GPUs could be proven clean, so those are in quarantine."
        case S.RELEASED:
            return f"{it.name} was given back, and nothing of it is left{_on(facts)}."
        case S.FAILED if it.failure_code == "cancelled":
            return f"{it.name} was given back before it was active; nothing was charged."
        case S.FAILED:
            return f"{it.name} never became active; nothing was charged."
        case _:
            return f"{it.name} could not be proven gone{_on(facts)}, so its GPUs are in quarantine."


def _what(facts: Facts) -> str:
    it = facts.shown
    nodes = f" on each of {it.node_count} nodes" if it.node_count > 1 else ""
    return f"{it.gpu_count} {it.gpu_model} {'GPU' if it.gpu_count == 1 else 'GPUs'}{nodes}"


def _unclean(facts: Facts) -> list[str]:
    """Of one that was released: the GPUs that were not proven clean."""
    return [f"GPU {gpu.gpu_index} of {gpu.node_name}" for gpu in facts.gpus if gpu.state == HoldState.QUARANTINED]


def _on(facts: Facts) -> str:
    names = [gpu.node_name for gpu in facts.gpus]
    return f" on {listed(names)}" if names else ""


# why it is as it is --------------------------------------------------------------------------------------------------
def why_waiting(facts: Facts) -> str:
    if facts.shown.state is not S.REQUESTED:
        return ""
    return facts.place.reason if facts.place is not None else "Its turn has come: it is being placed now."


def when_it_starts(facts: Facts) -> str:
    if facts.place is None:
        return ""
    if facts.place.estimated_start is None:
        return "That cannot be told: it depends on leases that may be renewed, or on GPUs that are out of service."
    return f"About {until(facts.place.estimated_start, facts.now)}, if nobody renews or gives back before."


def why_here(facts: Facts) -> str:
    return sentence(facts.allocation.placement)


def why_failed(facts: Facts) -> str:
    it = facts.shown
    if it.state is not S.FAILED:
        return ""
    reason = sentence(it.failure or "no reason was told")
    return f"{reason} {_FAILED.get(it.failure_code, _ASK_AGAIN)}"


def why_given_back(facts: Facts) -> str:
    it = facts.shown
    if it.release_requested_at is None or it.state is S.FAILED:
        return ""
    when = at(it.release_requested_at)
    if it.released_by.startswith("system:"):
        return f"By itself at {when}: {sentence(_BY_ITSELF.get(it.release_reason, it.release_reason), capital=False)}"
    forced = ", an operator," if facts.allocation.forced else ""
    reason = sentence(it.release_reason or "no reason was given", capital=False)
    return f"{it.released_by}{forced} asked for it at {when}: {reason}"


def why_not_gone(facts: Facts) -> str:
    it = facts.shown
    if it.state is not S.RELEASE_FAILED:
        return ""
    tried = facts.allocation.force_attempts
    forced = f" An operator has forced it {number(tried, 'time')}." if tried else ""
    return (
        f"{sentence(it.failure or 'Its node did not prove that account and data are gone')}{forced} Nobody is given "
        "these GPUs, and you are not charged for them."
    )


def how_it_was_cleaned(facts: Facts) -> str:
    if facts.shown.state is not S.RELEASED:
        return ""
    if not facts.certificates:
        return "It was given back before anybody could use it: there was nothing to clean."
    certified = number(facts.certificates, "signed certificate")
    unclean = _unclean(facts)
    left = f"Not proven clean, and so in quarantine: {listed(unclean)}. " if unclean else ""
    return (
        f"{left}{certified} {'says' if facts.certificates == 1 else 'say'} what was cleaned and how, GPU by GPU: "
        "`gpuaas certificates download` keeps it, `gpuaas certificates verify` checks it without us."
    )


# what comes ----------------------------------------------------------------------------------------------------------
def what_next(facts: Facts) -> str:
    it, due = facts.shown, facts.shown.due_at
    latest = "" if due is None else f" At the latest at {until(due, facts.now)},"
    match it.state:
        case S.REQUESTED:
            return "It is given GPUs when its turn comes." + (f"{latest} it is given up and fails." if due else "")
        case S.PROVISIONING if it.release_requested_at is not None:
            return "Its account and leases are taken away, then it fails as cancelled; nothing is charged."
        case S.PROVISIONING:
            steps = "Its node keeps the GPUs for it, makes the account and proves the GPUs healthy; then it is active."
            return steps + (f"{latest} it fails, and what was made is taken back." if due else "")
        case S.ACTIVE:
            return _active_next(facts)
        case S.STOPPING:
            return "Its login is closed and what runs is ended. Its home and its GPUs stay as they are."
        case S.STOPPED:
            return _stopped_next(facts)
        case S.STARTING:
            return "Its login is opened and its GPUs are proven healthy; then it is active. If not, it stays stopped."
        case S.RELEASING:
            steps = "The account goes, memory and disks are cleared, the GPUs are checked; then it is released."
            return steps + (f"{latest} they are put into quarantine and it is release_failed." if due else "")
        case S.RELEASE_FAILED:
            return "It is tried again as soon as its node answers; an operator can force it, or look at the node."
        case _:
            return ""


def why_stopped(facts: Facts) -> str:
    it = facts.shown
    match it.stop_reason:
        case StopReason.USER if it.stop_unpaid:
            why = f"{it.stopped_by} stopped it. It would be charged, but there is no money: so it is not."
        case StopReason.USER:
            why = f"{it.stopped_by} stopped it. Its GPUs are kept for you, so it is charged as before."
        case StopReason.BALANCE:
            why = "The balance is empty. It is not charged while it is stopped."
        case StopReason.BUDGET:
            why = "The project's budget is spent. It is not charged while it is stopped."
        case _:
            return ""
    failed = f" What was tried last failed: {sentence(it.failure, capital=False)}" if it.failure_code else ""
    return why + failed


def _stopped_next(facts: Facts) -> str:
    it = facts.shown
    if it.stop_reason == StopReason.BALANCE:
        how = "It is started again as soon as there is money (`gpuaas billing top-up`)"
    else:
        how = "It stays stopped until somebody starts it (`gpuaas allocations start`)"
    ends = [end for end in (it.due_at, it.expires_at) if end is not None]
    return f"{how}; it is released at {until(min(ends), facts.now)}, if it is not." if ends else f"{how}."


def _active_next(facts: Facts) -> str:
    it = facts.shown
    if it.reclaim_at is not None and (it.expires_at is None or it.reclaim_at < it.expires_at):
        return f"Nobody uses it: it is released at {until(it.reclaim_at, facts.now)}, unless it is used or renewed."
    if it.expires_at is None:
        return "It stays until somebody releases it."
    if it.ends_at is not None and it.expires_at >= it.ends_at:
        return f"It is released at {until(it.expires_at, facts.now)}, and cannot be renewed any more."
    return (
        f"Its lease ends at {until(it.expires_at, facts.now)}: then it is released, unless it is renewed "
        "(`gpuaas allocations renew`)."
    )


def how_long(facts: Facts) -> str:
    it = facts.shown
    if it.state not in LIVE or it.state in {S.RELEASING, S.RELEASE_FAILED}:
        return ""
    lease = lasting(timedelta(seconds=facts.allocation.lease_seconds))
    end = "" if it.ends_at is None else f", never beyond {at(it.ends_at)}"
    return _with(facts, f"{lease} at a time{end}.", "allocations.lifetime_hours_max")


def if_unused(facts: Facts) -> str:
    if facts.shown.state is not S.ACTIVE:
        return ""
    since = facts.allocation.idle_since
    idle = "" if since is None else f"Its GPUs have not been used for {lasting(facts.now - since)}. "
    if _value(facts, "allocations.idle_reclaim"):
        warned = lasting(timedelta(minutes=int(_value(facts, "allocations.idle_minutes"))))
        grace = lasting(timedelta(minutes=int(_value(facts, "allocations.idle_grace_minutes"))))
        what = f"After {warned} without use its people are warned, and {grace} later it is released."
    else:
        what = "It is kept all the same."
    return _with(facts, idle + what, "allocations.idle_reclaim")


def if_the_node_is_lost(facts: Facts) -> str:
    if facts.shown.state not in KEPT:
        return ""
    ends = _value(facts, "allocations.node_lost_action") == "end"
    what = "It is released." if ends else "It waits for its node, degraded, and works again when the node is back."
    return _with(facts, what, "allocations.node_lost_action")


def how_long_it_may_wait(facts: Facts) -> str:
    if facts.shown.state is not S.REQUESTED:
        return ""
    return _with(facts, "Until its time in the queue is over; then it fails.", "allocations.queue_hours")


# what it is ----------------------------------------------------------------------------------------------------------
def what_it_costs(facts: Facts) -> str:
    it = facts.shown
    if it.state is S.FAILED:
        return "Nothing: it was never active."
    gpus = it.gpu_count * it.node_count
    each = money(it.currency, it.micros_per_gpu_hour)
    since = "" if facts.price_from is None else f", the price of {it.sku_name} since {at(facts.price_from)}"
    total = "" if gpus == 1 else f", {money(it.currency, it.micros_per_gpu_hour * gpus)} for its {gpus}"
    price = f"{each} per GPU-hour{since}{total}. That price stays for as long as it lasts."
    if it.active_at is None:
        return f"Nothing yet. {price}"
    span = f"from {at(it.active_at)}" + (f" to {at(it.release_requested_at)}" if it.release_requested_at else " on")
    used = lasting(timedelta(seconds=facts.money.usable_seconds))
    return f"{price} It counts {span}, while it can be used: {about(it.currency, facts.money.cost_micros)} for {used}."


def what_is_set_aside(facts: Facts) -> str:
    """The deposit, and how long the rest lasts."""
    it, held = facts.shown, facts.money.held_micros
    if not held:
        return ""
    lasts = facts.money.runway_seconds
    left = "" if lasts is None else f" The balance lasts {lasting(timedelta(seconds=lasts))} with all that runs."
    text = f"{money(it.currency, held)}, given back when it is released.{left}"
    return _with(facts, text, "billing.hold_minutes")


def why_not_charged(facts: Facts) -> str:
    since = facts.money.paused_since
    if since is None or facts.shown.state is not S.ACTIVE:
        return ""
    reason = sentence(facts.money.paused_reason, capital=False)
    return f"Since {since:%Y-%m-%d %H:%M:%S} UTC, the last good proof, it cannot be used: {reason}"


def what_was_given_back(facts: Facts) -> str:
    if not facts.credits:
        return ""
    told = [
        f"{money(entry.currency, entry.amount_micros)} at {at(entry.at)}: {entry.reason}"
        for entry in facts.credits[:MAX_CREDITS]
    ]
    return _with(facts, sentence("; ".join(told)), "billing.fault_credit_minutes")


def how_it_is(facts: Facts) -> str:
    """The health of what it holds."""
    it = facts.shown
    if it.state not in HOLDS_SLOTS or not facts.gpus:
        return ""
    sick = [f"GPU {gpu.gpu_index} of {gpu.node_name} ({gpu.quarantine})" for gpu in facts.gpus if gpu.quarantine]
    advice = " Release it and ask again: others are chosen." if sick else ""
    if it.degraded_since is not None:
        since = lasting(facts.now - it.degraded_since)
        return f"Degraded for {since}: {sentence(it.degraded_reason, capital=False)}{advice}"
    if sick:
        return f"In quarantine: {listed(sick)}.{advice}"
    proven = "proven healthy before it became active, and watched since" if it.active_at else "being checked now"
    return f"{number(len(facts.gpus), 'GPU')}, {proven}: no fault is known."


def how_it_is_isolated(facts: Facts) -> str:
    if facts.shown.state not in LIVE:
        return ""
    if facts.allocation.isolation is Isolation.FULL_REIMAGE:
        model = "By whole nodes that are set up anew after each tenant (full-reimage)."
    else:
        model = (
            "By an account of its own that alone may open its GPUs; on release the account goes, and memory and disks "
            "are cleared with evidence (user-revoke)."
        )
    return _with(facts, model, "allocations.isolation")


def _with(facts: Facts, text: str, key: str) -> str:
    return f"{text} {facts.policies[key].sentence}"


def _value(facts: Facts, key: str) -> Value:
    return facts.policies[key].value


_QUESTIONS: tuple[tuple[str, Answer], ...] = (
    ("Why does it wait?", why_waiting),
    ("When may it start?", when_it_starts),
    ("Why did it fail?", why_failed),
    ("Why is it stopped?", why_stopped),
    ("Why was it given back?", why_given_back),
    ("Why is it not released?", why_not_gone),
    ("Why these GPUs?", why_here),
    ("What happens next?", what_next),
    ("How are its GPUs?", how_it_is),
    ("What does it cost?", what_it_costs),
    ("Why is it not charged now?", why_not_charged),
    ("What was given back for it?", what_was_given_back),
    ("What is set aside for it?", what_is_set_aside),
    ("How long may it last?", how_long),
    ("How long may it wait?", how_long_it_may_wait),
    ("What if nobody uses it?", if_unused),
    ("What if its node is lost?", if_the_node_is_lost),
    ("How is it kept apart from others?", how_it_is_isolated),
    ("How was it cleaned?", how_it_was_cleaned),
)
