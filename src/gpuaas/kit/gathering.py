"""Questions of many, answered together: while one round is under way, those who ask wait for the next. The busier it
is, the more each round answers, so a crowd costs a few rounds and not a queue of its own length.

Always holds: one round at a time; nobody is answered by a round that began before he asked; what fails is told to those
who were in that round, and to nobody else."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
Q = TypeVar("Q")
V = TypeVar("V")
MOST = 1000


class Gathering(Generic[K, Q, V]):
    """`answer` is given questions by their keys; a key it leaves out, or answers with an Exception, is told so."""

    def __init__(
        self, answer: Callable[[Mapping[K, Q]], Awaitable[Mapping[K, V | Exception]]], *, most: int = MOST
    ) -> None:
        self._answer = answer
        self._most = most
        self._asked: dict[K, tuple[Q, asyncio.Future[V]]] = {}
        self._rounds: asyncio.Task[None] | None = None

    async def ask(self, key: K, question: Q) -> V:
        """The answer of the next round. Whoever asks the same meanwhile is answered with it."""
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = (question, asyncio.get_running_loop().create_future())
        if self._rounds is None:
            self._rounds = asyncio.create_task(self._go_round())
        return await asyncio.shield(asked[1])

    async def _go_round(self) -> None:
        try:
            while self._asked:
                now = dict(list(self._asked.items())[: self._most])
                for key in now:
                    del self._asked[key]
                await self._round(now)
        finally:
            self._rounds = None

    async def _round(self, asked: dict[K, tuple[Q, asyncio.Future[V]]]) -> None:
        try:
            answers = await self._answer({key: question for key, (question, _) in asked.items()})
        except Exception as error:  # noqa: BLE001 # each who waits hears it
            answers = dict.fromkeys(asked, error)
        for key, (_, future) in asked.items():
            answer = answers.get(key, LookupError("the question was not answered"))
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
                future.exception()  # nobody may wait for it any more; that is no news
            else:
                future.set_result(answer)
