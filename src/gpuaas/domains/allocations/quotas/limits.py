"""Whether a request stays within its quotas, and what to do if not: a pure decision.

A quota of an organisation or project for a GPU model holds instead of the policy `quota.gpus` there. Both levels hold;
a project for which nothing was said is limited by its organisation alone."""

from collections.abc import Sequence
from typing import NamedTuple

from gpuaas.domains.allocations.quotas.models import Used


class Limit(NamedTuple):
    """`whose` may have `most` of `what`, and has `used`."""

    whose: str
    what: str
    used: int
    most: int


class Allowed(NamedTuple):
    """What the policies say, for the organisation and for the project."""

    org_gpus: int
    project_gpus: int
    org_allocations: int
    project_allocations: int


def gpu_limits(used: Used, allowed: Allowed, gpu_model: str) -> list[Limit]:
    what = f"{gpu_model} GPUs"
    org = allowed.org_gpus if used.org_limit is None else used.org_limit
    of_project = org if allowed.project_gpus == allowed.org_gpus else allowed.project_gpus
    project = of_project if used.project_limit is None else used.project_limit
    return [
        Limit("The organisation", what, used.org_gpus, org),
        Limit("The project", what, used.project_gpus, project),
    ]


def allocation_limits(used: Used, allowed: Allowed) -> list[Limit]:
    return [
        Limit("The organisation", "allocations", used.org_allocations, allowed.org_allocations),
        Limit("The project", "allocations", used.project_allocations, allowed.project_allocations),
    ]


def refusal(limits: Sequence[Limit], asked: int) -> str | None:
    """A sentence with the numbers and what to do; None: it stays within all of them."""
    for limit in limits:
        if limit.used + asked > limit.most:
            left = max(limit.most - limit.used, 0)
            fewer = f"ask for at most {left}, " if left and asked > 1 else ""
            return (
                f"{limit.whose} has {limit.used} of the {limit.most} {limit.what} it may have at once, and this asks "
                f"for {asked} more. Release some, {fewer}or ask the operator for a larger quota."
            )
    return None


def left(limits: Sequence[Limit]) -> int:
    return max(min(limit.most - limit.used for limit in limits), 0)
