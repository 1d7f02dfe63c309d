"""How the issuer says no: the codes of RFC 6749, 6750, 7009, 8628 and OpenID Connect, with their status.

A refusal is raised where it is found and turned into an answer by the route, inside of the transaction: what was done
before it (a used code, an ended family) stays done."""

from enum import StrEnum

MAX_DESCRIPTION = 200


class Error(StrEnum):
    INVALID_REQUEST = "invalid_request"
    INVALID_CLIENT = "invalid_client"
    INVALID_GRANT = "invalid_grant"
    UNAUTHORIZED_CLIENT = "unauthorized_client"
    UNSUPPORTED_GRANT_TYPE = "unsupported_grant_type"
    UNSUPPORTED_RESPONSE_TYPE = "unsupported_response_type"
    INVALID_SCOPE = "invalid_scope"
    ACCESS_DENIED = "access_denied"
    LOGIN_REQUIRED = "login_required"
    REQUEST_NOT_SUPPORTED = "request_not_supported"
    REQUEST_URI_NOT_SUPPORTED = "request_uri_not_supported"
    REGISTRATION_NOT_SUPPORTED = "registration_not_supported"
    INVALID_TOKEN = "invalid_token"  # noqa: S105 # an error code, not a token
    INSUFFICIENT_SCOPE = "insufficient_scope"
    AUTHORIZATION_PENDING = "authorization_pending"
    SLOW_DOWN = "slow_down"
    EXPIRED_TOKEN = "expired_token"  # noqa: S105 # an error code, not a token
    UNSUPPORTED_TOKEN_TYPE = "unsupported_token_type"  # noqa: S105 # an error code, not a token


STATUS = {Error.INVALID_CLIENT: 401, Error.INVALID_TOKEN: 401, Error.INSUFFICIENT_SCOPE: 403}


class OAuthRefusal(Exception):
    """An answer in the RFCs' words. `happened` tells whether the refusal itself is worth an audit row."""

    def __init__(self, error: Error, description: str, *, happened: str = "") -> None:
        super().__init__(description)
        self.error = error
        self.description = description[:MAX_DESCRIPTION]
        self.happened = happened

    @property
    def status(self) -> int:
        return STATUS.get(self.error, 400)

    def challenge(self, realm: str) -> str | None:
        """The WWW-Authenticate header that goes with a 401 or 403."""
        if self.error is Error.INVALID_CLIENT:
            return f'Basic realm="{realm}", charset="UTF-8"'
        if self.error in (Error.INVALID_TOKEN, Error.INSUFFICIENT_SCOPE):
            return f'Bearer realm="{realm}", error="{self.error}", error_description="{self.description}"'
        return None

    def body(self) -> dict[str, str]:
        return {"error": self.error, "error_description": self.description}
