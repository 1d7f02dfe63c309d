"""Passwords: argon2id, in threads of their own. Each hash takes 64 MiB and a tenth of a second or two, so few run at
once and few may wait: a flood of logins costs a fixed amount of memory and is told to come back."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from gpuaas.contracts.error_codes import Code
from gpuaas.kit.errors import Unavailable
from gpuaas.kit.secrets import new_token

AT_ONCE = 2
WAITING = 32
T = TypeVar("T")
_HASHER = PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=1, hash_len=32, salt_len=16)


def hash_now(password: str) -> str:
    """For programs that may wait: seeding. A server asks `Passwords`."""
    return _HASHER.hash(password)


class Passwords:
    def __init__(self, *, at_once: int = AT_ONCE, waiting: int = WAITING) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="passwords")
        self._most = at_once + waiting
        self._in_hand = 0
        self._decoy: str | None = None
        self.checks = 0
        """How many passwords were checked: known and unknown accounts cost the same."""

    async def hash(self, password: str) -> str:
        return await self._run(_HASHER.hash, password)

    async def verify(self, password: str, hashed: str | None) -> bool:
        """Whether the password is the one; without a hash (no such account) it takes as long to say no."""
        self.checks += 1
        if self._decoy is None:
            self._decoy = await self.hash(new_token())
        matches = await self._run(_matches, hashed or self._decoy, password)
        return matches and hashed is not None

    def outdated(self, hashed: str) -> bool:
        """Whether the hash was made with weaker parameters than today's."""
        return _HASHER.check_needs_rehash(hashed)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[..., T], *args: str) -> T:
        if self._in_hand >= self._most:
            raise Unavailable(Code.OVERLOADED, "Too many logins are waiting. Try again.", retry_after=2)
        self._in_hand += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)
        finally:
            self._in_hand -= 1


def _matches(hashed: str, password: str) -> bool:
    try:
        return _HASHER.verify(hashed, password)
    except (VerificationError, InvalidHashError):
        return False
