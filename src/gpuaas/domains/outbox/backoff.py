"""When a failed delivery is tried again."""

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 60.0


def retry_seconds(attempts: int, dice: float, first_seconds: float = FIRST_SECONDS) -> float:
    """Doubles with each attempt up to a bound; `dice` in [0, 1) spreads those who failed together."""
    doubled = first_seconds * 2.0 ** min(max(attempts, 1) - 1, 20)
    return min(doubled, LONGEST_SECONDS) * (0.5 + dice / 2)
