"""How long to wait before trying again: longer each time, and random, so that hundreds of agents whose control plane
comes back do not come back together."""

import random

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 10.0
REFUSED_SECONDS = 60.0


class Backoff:
    def __init__(self, first: float = FIRST_SECONDS, longest: float = LONGEST_SECONDS) -> None:
        self._first = first
        self._longest = longest
        self._failures = 0

    def reset(self) -> None:
        self._failures = 0

    def next(self, at_least: float = 0.0) -> float:
        """Anywhere up to twice what it was before, up to the longest; never shorter than a tenth of that."""
        top = min(self._longest, self._first * 2.0 ** min(self._failures, 20))
        self._failures += 1
        return max(at_least, top * (0.1 + 0.9 * random.random()))  # noqa: S311 # spreads load, guards nothing
