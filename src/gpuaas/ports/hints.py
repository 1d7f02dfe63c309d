"""Hints between programs: 'look now'. They may be lost; whoever waits for one also looks by itself."""

from collections.abc import Callable
from typing import Protocol


class Hints(Protocol):
    def tell(self, subject: str) -> None:
        """Say it to whoever listens now; never waits and never fails."""
        ...

    def listen(self, pattern: str, heard: Callable[[str], None]) -> None:
        """Call back with each subject that fits, on every connection from now on."""
        ...
