"""Many questions, few rounds."""

import asyncio
from collections.abc import Mapping

import pytest

from gpuaas.kit.gathering import Gathering


class Oracle:
    """Doubles what it is asked, slowly, and remembers its rounds."""

    def __init__(self) -> None:
        self.rounds: list[list[int]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.together = 0

    async def __call__(self, asked: Mapping[int, int]) -> dict[int, int | Exception]:
        self.rounds.append(sorted(asked))
        self.together += 1
        assert self.together == 1, "one round at a time"
        await self.may_answer.wait()
        self.together -= 1
        if 13 in asked:
            raise OSError("away")
        return {key: LookupError("odd") if key == 7 else 2 * question for key, question in asked.items() if key != 8}


async def test_who_asks_during_a_round_is_answered_by_the_next_and_all_of_them_at_once():
    oracle = Oracle()
    gathering = Gathering(oracle)
    oracle.may_answer.clear()
    first = asyncio.create_task(gathering.ask(1, 1))
    await asyncio.sleep(0.01)
    others = [asyncio.create_task(gathering.ask(key, key)) for key in (2, 3, 1, 2)]
    await asyncio.sleep(0.01)
    oracle.may_answer.set()
    assert await first == 2
    assert await asyncio.gather(*others) == [4, 6, 2, 4]
    assert oracle.rounds == [[1], [1, 2, 3]]


async def test_a_round_has_an_end_however_many_ask():
    oracle = Oracle()
    gathering = Gathering(oracle, most=40)
    assert await asyncio.gather(*(gathering.ask(key, key) for key in range(100, 200))) == list(range(200, 400, 2))
    assert [len(asked) for asked in oracle.rounds] == [40, 40, 20]


async def test_a_refusal_is_told_to_the_one_and_a_failure_to_its_round():
    oracle = Oracle()
    gathering = Gathering(oracle)
    said = await asyncio.gather(*(gathering.ask(key, key) for key in (7, 8, 9)), return_exceptions=True)
    assert isinstance(said[0], LookupError)
    assert isinstance(said[1], LookupError)
    assert said[2] == 18
    failed = await asyncio.gather(*(gathering.ask(key, key) for key in (13, 14)), return_exceptions=True)
    assert [type(one) for one in failed] == [OSError, OSError]
    assert await gathering.ask(14, 14) == 28


async def test_one_who_leaves_takes_no_answer_from_the_others():
    oracle = Oracle()
    gathering = Gathering(oracle)
    oracle.may_answer.clear()
    leaving, staying = (asyncio.create_task(gathering.ask(5, 5)) for _ in range(2))
    await asyncio.sleep(0.01)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    oracle.may_answer.set()
    assert await staying == 10
