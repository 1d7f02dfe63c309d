"""What is said of a standing: what comes next, and how to stop it."""

from gpuaas.contracts.http.standing import Rung
from gpuaas.domains.billing.standing.models import Facts

_TOP_UP = "Top up the balance to stop this at once."
_REFUSED = {
    Rung.EMPTY: "The balance is used up: nothing new begins, and what runs is stopped soon.",
    Rung.STOPPED: "The balance is used up, and what ran is stopped.",
    Rung.RELEASED: "The balance is used up, and what ran was released.",
}


def refused(rung: Rung) -> str:
    return f"{_REFUSED[rung]} Top it up (`gpuaas billing standing` shows how it stands), then ask again."


def advice(facts: Facts) -> str:
    """One or two sentences."""
    when = "" if facts.due_at is None else f"At {facts.due_at:%Y-%m-%d %H:%M} UTC"
    match facts.rung:
        case Rung.GOOD if facts.spendable_micros <= 0 and not facts.running:
            return "Nothing is in the balance, and nothing runs. Top it up to begin something."
        case Rung.GOOD:
            return "There is enough for what runs. Nothing is to be done."
        case Rung.LOW:
            return "The balance will not last long. Top it up before it is used up."
        case Rung.EMPTY if when:
            return f"The balance is used up: nothing new begins. {when} what runs is stopped, and kept. {_TOP_UP}"
        case Rung.EMPTY:
            return "The balance is used up: nothing new begins. Top it up to begin something."
        case Rung.STOPPED if when:
            return f"What ran is stopped and kept. {when} it is released and its data are erased. {_TOP_UP}"
        case Rung.STOPPED:
            return "The balance is used up, and nothing runs. Top it up to begin something."
        case Rung.RELEASED:
            return "What ran was released. Top up the balance to begin something."
