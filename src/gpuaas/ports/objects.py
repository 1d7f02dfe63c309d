"""What we ask of whatever keeps large things: bytes under a name. Names are made of ids and digests, not by users."""

from collections.abc import Sequence
from typing import Protocol


class ObjectMissing(Exception):
    """Nothing is kept under this name."""


class ObjectsAway(Exception):
    """The store did not do it; the message says why."""


class Objects(Protocol):
    async def put(self, name: str, content: bytes) -> None:
        """Keep it, entirely or not at all; what had the name before is replaced."""
        ...

    async def get(self, name: str) -> bytes: ...

    async def delete(self, names: Sequence[str]) -> None:
        """What is not there is gone already."""
        ...
