"""How a program says that a node has something to fetch."""

from uuid import UUID

SUBJECT = "hint.tasks."


def subject_of(node_id: UUID) -> str:
    return f"{SUBJECT}{node_id}"
