"""A webhook's signature, as Stripe makes it: HMAC-SHA256 over the instant, a dot and the body's very bytes."""

import hashlib
import hmac


def signature(secret: str, at: int, body: bytes) -> str:
    """For the header `Stripe-Signature`."""
    made = hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={made}"
