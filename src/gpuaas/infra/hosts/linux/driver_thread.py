"""Calls into a GPU's driver, which sometimes never return: a GPU that fell off the bus can hang whoever asks for it.

Always holds: one call at a time; one that hangs costs one thread, which ends with the process, and everybody who asks
meanwhile hears so at once instead of waiting with it."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from gpuaas.ports.host import HostFailed

PATIENCE_SECONDS = 8.0
_LOOK_SECONDS = 0.02
_Answer = TypeVar("_Answer")


class DriverThread:
    def __init__(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._patience = patience_seconds
        self._turn = asyncio.Lock()
        self._last: threading.Thread | None = None
        self._hangs = False

    async def run(self, work: Callable[[], _Answer], *, patience_seconds: float | None = None) -> _Answer:
        """HostFailed when it does not return in time, or another has not returned yet."""
        async with self._turn:
            await self._returned()
            loop = asyncio.get_running_loop()
            answer: asyncio.Future[_Answer] = loop.create_future()
            thread = threading.Thread(target=_call, args=(work, loop, answer), name="gpu-driver", daemon=True)
            self._last = thread
            thread.start()
            seconds = patience_seconds or self._patience
            try:
                async with asyncio.timeout(seconds):
                    return await answer
            except TimeoutError:
                self._hangs = True
                raise HostFailed("driver_hangs", f"the GPUs' driver did not answer within {seconds:.0f} s") from None

    async def _returned(self) -> None:
        """The last call has; one that was only given up by who asked for it is given its time."""
        waited = 0.0
        while self._last is not None and self._last.is_alive():
            if self._hangs or waited >= self._patience:
                self._hangs = True
                raise HostFailed("driver_hangs", "the GPUs' driver hangs: a call into it has not returned")
            await asyncio.sleep(_LOOK_SECONDS)
            waited += _LOOK_SECONDS
        self._hangs = False


def _call(work: Callable[[], _Answer], loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[_Answer]") -> None:
    try:
        done = work()
    except BaseException as error:  # noqa: BLE001 # whoever asked hears it
        _tell(loop, answer, partial(answer.set_exception, error))
    else:
        _tell(loop, answer, partial(answer.set_result, done))


def _tell(loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[_Answer]", tell: Callable[[], None]) -> None:
    def unless_given_up() -> None:
        if not answer.done():
            tell()

    try:
        loop.call_soon_threadsafe(unless_given_up)
    except RuntimeError:
        return  # the program has ended meanwhile
