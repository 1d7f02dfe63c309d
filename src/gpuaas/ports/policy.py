"""What everybody asks of policy: the effective value of a key, from memory."""

from typing import Protocol
from uuid import UUID


class PolicyReader(Protocol):
    def number(self, key: str, org_id: UUID | None = None, project_id: UUID | None = None) -> int: ...

    def text(self, key: str, org_id: UUID | None = None, project_id: UUID | None = None) -> str: ...

    def flag(self, key: str, org_id: UUID | None = None, project_id: UUID | None = None) -> bool: ...

    def changed(self) -> None:
        """A policy was changed: look at once instead of at the next turn."""
        ...
