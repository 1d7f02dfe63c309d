"""What a program is put together from, found by type."""

from typing import Any, TypeVar

T = TypeVar("T")


class Parts:
    """Filled once by a program's main; read by handlers and timers: `parts.get(TokenVerifier)`."""

    def __init__(self, *parts: Any) -> None:
        self._parts: dict[type, Any] = {}
        for part in parts:
            self.add(part)

    def add(self, part: Any) -> None:
        for kind in type(part).__mro__[:-1]:
            self._parts.setdefault(kind, part)

    def get(self, kind: type[T]) -> T:
        """The part of this type; asking for one main has not put in is a mistake of ours and fails."""
        try:
            found: T = self._parts[kind]
        except KeyError:
            raise LookupError(f"no part of type {kind.__name__}: main has to add one") from None
        return found
