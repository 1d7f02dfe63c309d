"""The only reader of the machine's clock. Instants are aware and in UTC; durations come from `monotonic`."""

import time
from datetime import UTC, datetime

monotonic = time.monotonic


def now() -> datetime:
    return datetime.now(UTC)


def epoch_ms() -> int:
    return time.time_ns() // 1_000_000


def epoch_s() -> int:
    return time.time_ns() // 1_000_000_000
