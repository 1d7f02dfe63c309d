"""What breaks a rule today. A list here may only shrink: an entry that is no longer needed fails the build,
and so does one more than the ceiling.

A key is `path` or `path::function`, as the finding prints it.
"""

ALLOWED: dict[str, frozenset[str]] = {}
CEILING = 0
