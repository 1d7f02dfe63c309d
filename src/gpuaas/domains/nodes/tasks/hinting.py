"""How a program says that there is something to sign, or that a node has something to fetch or to hear."""

from uuid import UUID

SUBJECT = "hint.tasks."
TO_SIGN = "hint.sign"


def subject_of(node_id: UUID) -> str:
    return f"{SUBJECT}{node_id}"
