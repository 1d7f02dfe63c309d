"""Times as people say them: how long ago, in how long, for how long."""

from datetime import datetime
from itertools import pairwise

from gpuaas.kit import clock

_MINUTE = 60
_MANY = 10
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def relative(at: datetime | None) -> str:
    """'3 min ago', 'in 2 h'; nothing for no time."""
    if at is None:
        return ""
    seconds = (at - clock.now()).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def span(seconds: float) -> str:
    """In one unit, or two where the second still says something: '45 s', '12 min', '3 h 20 min', '2 d 4 h'."""
    left = round(seconds)
    for (size, unit), (smaller, name) in pairwise(_UNITS):
        # What is left of the smaller unit is rounded, so that a day less a second is a day.
        if round(left / smaller) * smaller < size:
            continue
        if size == _MINUTE or left >= _MANY * size:
            return f"{round(left / size)} {unit}"
        count, more = divmod(round(left / smaller), size // smaller)
        return f"{count} {unit} {more} {name}" if more else f"{count} {unit}"
    return f"{left} s"
