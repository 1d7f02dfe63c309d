"""What access tokens say beyond the registered claims. The built-in issuer writes these; identity reads them, and
believes them of the built-in issuer only."""

KIND_CLAIM = "gpuaas_kind"
"""Absent or 'user': `sub` is a person. 'service_account': `sub` is a service account's id."""
KEY_CLAIM = "gpuaas_key"
"""The id of the service account's key that was exchanged for the token: the token dies with it."""
BUILT_IN = "built-in"
"""What the built-in issuer is called where we remember whose subject a user is: its URL changes with its address, its
people do not."""
SERVICE_ACCOUNT_KIND = "service_account"
ACCESS_TOKEN_TYPE = "at+jwt"  # noqa: S105 # the media type of RFC 9068, not a secret
