"""What a service account may call, and who may give it that much: no machine makes another one stronger than itself."""

from collections.abc import Iterable

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.kit.errors import Denied, Detail, Refused

ALL = "*"


def checked(wanted: Iterable[str], known: frozenset[str]) -> list[str]:
    """Sorted, each once; every one an operation that exists."""
    listed = sorted(set(wanted))
    unknown = [name for name in listed if name != ALL and name not in known]
    if unknown:
        raise Refused(
            Code.OPERATION_UNKNOWN,
            "The allow-list names an operation that does not exist. See /api/docs.",
            details=[Detail("allowed_operations", f"{name} does not exist") for name in unknown],
        )
    return listed


def require_within(actor: Actor, wanted: Iterable[str]) -> None:
    """A person's roles limit him; a service account is limited by its own list too."""
    own = actor.allowed_operations
    if own is None or ALL in own:
        return
    beyond = sorted(set(wanted) - own)
    if beyond:
        raise Denied(
            Code.OPERATION_NOT_IN_ALLOW_LIST,
            f"This service account's allow-list does not hold {beyond[0]}, so it cannot give that to another.",
        )
