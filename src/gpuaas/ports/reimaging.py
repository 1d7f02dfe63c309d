"""Setting a node up anew between two tenants. Today its own agent does it; a bare-metal controller may instead."""

from typing import Protocol

from gpuaas.contracts.tasks.base import Task


class Reimaging(Protocol):
    def order(self, serials: list[str]) -> Task:
        """What is asked of the node so that nothing of the last tenant is on it."""
        ...
