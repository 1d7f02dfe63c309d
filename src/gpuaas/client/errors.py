"""How a call can fail, as the caller sees it.

ClientError
├── ApiError       the API said no: code, message, details, correlation id
├── Unreachable    no answer came
├── NotLoggedIn    there is no credential, or the session has ended
├── LoginFailed    the issuer, or the way to it, refused the login
└── FileRefused    a file on this machine is not as it must be (readable by others, not JSON)
"""

from collections.abc import Sequence
from http import HTTPStatus

from gpuaas.kit.errors import Detail


class ClientError(Exception):
    """Its text is a sentence for people."""

    correlation_id: str = ""


class ApiError(ClientError):
    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: Sequence[Detail] = (),
        correlation_id: str = "",
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = tuple(details)
        self.correlation_id = correlation_id
        self.retry_after = retry_after

    @property
    def missing(self) -> bool:
        return self.status == HTTPStatus.NOT_FOUND


class Unreachable(ClientError):
    def __init__(self, url: str, reason: str, correlation_id: str = "") -> None:
        super().__init__(f"No answer from {url}: {reason}.")
        self.url = url
        self.correlation_id = correlation_id


class NotLoggedIn(ClientError):
    pass


class LoginFailed(ClientError):
    pass


class FileRefused(ClientError):
    pass
