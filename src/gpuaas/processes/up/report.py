"""What the person at the terminal sees: a line for each part that became ready, then how to get in.

Writing never fails: with nobody left to read, the product runs on in silence.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TextIO

from gpuaas.processes.up.seed import Login

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS = 0.1
_CLEAR_LINE = "\r\033[K"


class Report:
    """Lines on a stream; on a terminal also one moving line for what is being waited for."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._waiting: dict[str, float] = {}
        self._live = self._stream.isatty() and self._can_write(_FRAMES)
        self._tick, self._cross = ("✓", "!") if self._can_write("✓") else ("ok", "!")
        self._broken = False

    def line(self, text: str = "") -> None:
        """One line, now."""
        self._write(f"{_CLEAR_LINE if self._live else ''}{text}\n")

    def trouble(self, text: str) -> None:
        """One line about something that went wrong and is being dealt with."""
        self.line(f"  {self._cross} {text}")

    @asynccontextmanager
    async def step(self, name: str) -> AsyncIterator[list[str]]:
        """Show that something is being waited for; a tick, its seconds and any remark once it is done."""
        began = self._waiting[name] = time.monotonic()
        remarks: list[str] = []
        try:
            yield remarks
        finally:
            del self._waiting[name]
        seconds = time.monotonic() - began
        self.line(f"  {self._tick} {name:<10} {seconds:5.1f} s  {', '.join(remarks)}".rstrip())

    async def animate(self) -> None:
        """Move the waiting line until cancelled; does nothing where lines stay where they are."""
        if not self._live:
            return
        frame = 0
        try:
            while True:
                if self._waiting:
                    oldest = time.monotonic() - min(self._waiting.values())
                    names = ", ".join(self._waiting)
                    self._write(f"{_CLEAR_LINE}  {_FRAMES[frame % len(_FRAMES)]} {names} … {oldest:.1f} s")
                frame += 1
                await asyncio.sleep(_FRAME_SECONDS)
        finally:
            self._write(_CLEAR_LINE)

    def welcome(self, url: str, logins: Sequence[Login], seconds: float) -> None:
        """Where it is and how to get in."""
        self.line(f"Ready in {seconds:.1f} s.")
        self.line()
        self.line(f"  Open       {url}/")
        self.line(f"  API        {url}/api/v1")
        self.line(f"  API docs   {url}/api/docs")
        if logins:
            self.line()
            role, email = (max(len(value) for value in column) for column in zip(*_cells(logins), strict=True))
            for login in logins:
                self.line(f"  {login.role:<{role}}   {login.email:<{email}}   password  {login.password}")
        self.line()
        self.line(f"  CLI        {_own_command()} login --url {url}")
        self.line()
        self.line("Ctrl-C stops everything.")

    def _can_write(self, text: str) -> bool:
        try:
            text.encode(self._stream.encoding or "ascii")
        except (UnicodeEncodeError, LookupError):
            return False
        return True

    def _write(self, text: str) -> None:
        if self._broken:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._broken = True
            with suppress(OSError, ValueError):
                self._stream.close()


def _own_command() -> str:
    """What to type for `gpuaas` here: the bare name only where it means this installation."""
    installed = Path(sys.executable).with_name("gpuaas")
    if not installed.exists() or shutil.which("gpuaas") == str(installed):
        return "gpuaas"
    return min(str(installed), os.path.relpath(installed), key=len)


def _cells(logins: Sequence[Login]) -> list[tuple[str, str]]:
    return [(login.role, login.email) for login in logins]
