"""What we ask of the network to learn whether a host can be reached at all."""

from collections.abc import Sequence
from typing import Protocol


class Unreachable(Exception):
    """It could not be reached; the message says why."""


class Prober(Protocol):
    async def resolve(self, host: str) -> Sequence[str]:
        """All addresses of a name, or the address itself; raises Unreachable."""
        ...

    async def connect(self, address: str, port: int) -> float:
        """How many milliseconds a connection to exactly this address took; raises Unreachable."""
        ...
