"""What the agent asks of the host it runs on. Two implementations: `linux`, and `simulated` for any fleet on a laptop.

Every verb may be asked twice, and after a crash in the middle: it looks at what is there first, and ends with what was
asked for. A verb that cannot prove its end says so by raising HostFailed."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from gpuaas.contracts.tasks.catalogue import AccountResult, Cleaning, RevokeResult, SuspendResult
from gpuaas.contracts.tasks.topology import GpuFault, HostHealth, Topology

PhaseTeller = Callable[[str, str], Awaitable[None]]
"""Tell of a step: its name and a detail."""


class HostFailed(Exception):
    """The host could not do it. `code` is stable; the message is for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Host(Protocol):
    async def inspect(self) -> Topology: ...

    async def health(self, serials: list[str], *, load: bool, tell: PhaseTeller) -> HostHealth:
        """Of these GPUs, or of all when none is named."""
        ...

    async def faults(self) -> list[GpuFault]:
        """Driver faults since the last call that returned them; each is returned until acknowledged."""
        ...

    async def acknowledge(self, faults: list[GpuFault]) -> None: ...

    async def metrics(self) -> dict[str, float]:
        """Numbers of now: `gpu.<serial>.utilisation_percent`, `gpu.<serial>.temperature_c`, `host.load1`, … A GPU
        whose use is not among them counts as used."""
        ...

    async def accounts(self) -> list[str]:
        """Logins of ours that exist on the host."""
        ...

    async def provision(
        self, login: str, ssh_keys: list[str], gpus: list[str], *, tell: PhaseTeller
    ) -> AccountResult: ...

    async def revoke(self, login: str, *, tell: PhaseTeller) -> RevokeResult: ...

    async def suspend(self, login: str, *, tell: PhaseTeller) -> SuspendResult:
        """No way in, and nothing of it runs; its home stays, and so does what it was given. `provision` opens it."""
        ...

    async def drain(self, *, drained: bool) -> None:
        """Refuse, or allow again, logins of ours."""
        ...

    async def sanitise(self, serials: list[str], *, reimage: bool, tell: PhaseTeller) -> list[Cleaning]: ...
