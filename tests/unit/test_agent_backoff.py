"""Agents that lost their control plane together do not come back together."""

from collections import Counter

from gpuaas.processes.agent.backoff import LONGEST_SECONDS, Backoff

AGENTS = 500


def test_a_crowd_spreads_over_the_whole_of_each_wait():
    crowd = [Backoff() for _ in range(AGENTS)]
    for failures in range(8):
        waits = [one.next() for one in crowd]
        top = min(LONGEST_SECONDS, 0.5 * 2**failures)
        assert all(0.1 * top <= wait <= top for wait in waits)
        tenths = Counter(int(10 * wait / top) for wait in waits)
        assert max(tenths.values()) < AGENTS / 4, "no tenth of the time sees a quarter of them"


def test_whoever_was_answered_begins_anew_and_whoever_was_told_when_comes_no_sooner():
    backoff = Backoff()
    for _ in range(6):
        backoff.next()
    backoff.reset()
    assert backoff.next() <= 0.5
    assert backoff.next(at_least=60.0) >= 60.0
