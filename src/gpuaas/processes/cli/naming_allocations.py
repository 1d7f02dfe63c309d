"""Allocations by name. A name is one live allocation's at a time; of those that have ended, the newest is meant."""

from uuid import UUID

from gpuaas.client import allocations
from gpuaas.contracts.http.allocations import AllocationQuery, AllocationView, PlatformAllocationQuery
from gpuaas.kit.paging import MAX_LIMIT
from gpuaas.processes.cli import names
from gpuaas.processes.cli.failures import Exit, Stop
from gpuaas.processes.cli.run import Run

_ADVICE = "See them with: gpuaas allocations list"


def allocation_of(run: Run, word: str, project: str | None, org: str | None) -> tuple[UUID, UUID]:
    """The project meant, and the allocation of that name or id in it."""
    project_id = names.project(run, project, org)
    known = names.as_id(word)
    if known is not None:
        return project_id, known
    for live in (True, False):
        for found in run.api.items(
            allocations.allocation_list(project_id, AllocationQuery(live=live, limit=MAX_LIMIT))
        ):
            if found.name == word:
                return project_id, found.id
    raise Stop(f"There is no allocation {word!r} in this project.", _ADVICE, Exit.MISSING)


def allocation_anywhere(run: Run, word: str) -> AllocationView | UUID:
    """For operators: by id, or by the name of a live one of whatever organisation."""
    known = names.as_id(word)
    if known is not None:
        return known
    found = run.api.items(allocations.allocation_platform_list(PlatformAllocationQuery(live=True, limit=MAX_LIMIT)))
    advice = "See them with: gpuaas allocations list --everybody --live"
    return names.pick(word, found, lambda one: one.name, "live allocation", advice)
