"""What can go wrong, as few kinds and many codes.

    Fault
    ├── Invalid          400  the request is malformed            (422 when well-formed but refused: Refused)
    ├── Refused          422
    ├── Unauthenticated  401  we do not know who you are
    ├── Denied           403  we do, and you may not
    ├── Missing          404  it does not exist, or not for you
    ├── NotAllowed       405  the path exists, the method does not
    ├── Conflict         409  the state of things forbids it now
    ├── TooLarge         413
    ├── WrongType        415
    ├── Limited          429  too many; `retry_after` says when
    ├── Broken           500  our fault
    └── Unavailable      503  something we need is away; `retry_after` says when to try again

`message` is what the customer reads; `log` is what only the operator reads. `code` is stable for ever and stands in
the catalogue (`contracts/error_codes.py`).
"""

from collections.abc import Sequence
from typing import ClassVar

import msgspec

MAX_MESSAGE = 500
MAX_DETAILS = 20


class Detail(msgspec.Struct, frozen=True):
    """Which field is wrong, and why."""

    field: str
    reason: str


class Fault(Exception):
    status: ClassVar[int] = 500

    def __init__(
        self,
        code: str,
        message: str,
        *,
        details: Sequence[Detail] = (),
        log: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = str(code)
        self.message = message[:MAX_MESSAGE]
        self.details = tuple(details)[:MAX_DETAILS]
        self.log = log
        self.retry_after = retry_after


class Invalid(Fault):
    status = 400


class Refused(Fault):
    status = 422


class Unauthenticated(Fault):
    status = 401


class Denied(Fault):
    status = 403


class Missing(Fault):
    status = 404


class NotAllowed(Fault):
    status = 405


class Conflict(Fault):
    status = 409


class TooLarge(Fault):
    status = 413


class WrongType(Fault):
    status = 415


class Limited(Fault):
    status = 429


class Broken(Fault):
    status = 500


class Unavailable(Fault):
    status = 503


KINDS: tuple[type[Fault], ...] = (
    Invalid,
    Refused,
    Unauthenticated,
    Denied,
    Missing,
    NotAllowed,
    Conflict,
    TooLarge,
    WrongType,
    Limited,
    Broken,
    Unavailable,
)
