"""How programs that talk with people live hear that there is something new for one of them."""

from uuid import UUID

SUBJECT = "hint.notifications."


def subject_of(user_id: UUID) -> str:
    return f"{SUBJECT}{user_id}"
