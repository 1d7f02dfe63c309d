"""Whether a body is the provider's: signed with one of the secrets we share with it, and not long ago."""

from collections.abc import Sequence

from stripe import SignatureVerificationError, WebhookSignature

from gpuaas.contracts.error_codes import Code
from gpuaas.kit import clock
from gpuaas.kit.errors import Invalid

TOLERANCE_SECONDS = 300
MAX_HEADER = 2000
"""Stripe sends one signature for each secret that is valid, at most a few."""


def verify(body: bytes, header: str, secrets: Sequence[str]) -> None:
    """Raises Invalid; which secret it was does not matter: while one is rotated there are two."""
    why = "there is no signature" if not header else "the header is too long" if len(header) > MAX_HEADER else ""
    if not why and not secrets:
        why = "no secret is set up here"
    if not why:
        why = _refusal(body, header, secrets)
    if why:
        raise Invalid(
            Code.WEBHOOK_SIGNATURE_REFUSED,
            "The body was not signed by the payment provider with a secret known here, or over 300 seconds ago.",
            log=why,
        )


def _refusal(body: bytes, header: str, secrets: Sequence[str]) -> str:
    why = ""
    for secret in secrets:
        try:
            WebhookSignature.verify_header(body, header, secret, TOLERANCE_SECONDS)
        except SignatureVerificationError as error:
            why = str(error)
        except UnicodeDecodeError:
            return "it is not text"
        else:
            return "it is from the future" if _instant(header) > clock.epoch_s() + TOLERANCE_SECONDS else ""
    return why


def _instant(header: str) -> int:
    return next(int(part[2:]) for part in header.split(",") if part.startswith("t="))
