"""The one failure of `gpuaas up`: what the person at the terminal reads before it exits."""

from __future__ import annotations

from collections.abc import Sequence


class UpError(Exception):
    """Why the product cannot run: one clear line, and where a log tells more, its last lines."""

    def __init__(self, line: str, quoted: Sequence[str] = ()) -> None:
        super().__init__(line)
        self.quoted = tuple(quoted)
