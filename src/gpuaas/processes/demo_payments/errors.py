"""What the provider refuses with: Stripe's kinds of error, in Stripe's shape."""

from typing import Any


class ProviderError(Exception):
    """`kept`: the request was begun, so that the same idempotency key gets this same answer again."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        *,
        code: str = "",
        param: str = "",
        kept: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.code = code
        self.param = param
        self.kept = kept

    def body(self) -> dict[str, Any]:
        said = {"type": self.kind, "message": self.message, "code": self.code, "param": self.param}
        return {"error": {name: value for name, value in said.items() if value}}


def invalid(message: str, *, code: str = "", param: str = "", status: int = 400) -> ProviderError:
    return ProviderError(status, "invalid_request_error", message, code=code, param=param)


def refused(message: str, *, code: str) -> ProviderError:
    """Well asked, but not possible with things as they are."""
    return ProviderError(400, "invalid_request_error", message, code=code, kept=True)


def missing(kind: str, id: str, *, param: str = "id") -> ProviderError:
    return invalid(f"No such {kind}: '{id[:200]}'", code="resource_missing", param=param, status=404)
