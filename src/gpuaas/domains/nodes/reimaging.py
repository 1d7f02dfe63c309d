"""A node's own agent sets it up anew."""

from gpuaas.contracts.tasks.base import Task
from gpuaas.contracts.tasks.catalogue import Sanitise
from gpuaas.ports.reimaging import Reimaging


class AgentReimaging(Reimaging):
    def order(self, serials: list[str]) -> Task:
        return Sanitise(serials=serials, reimage=True)
