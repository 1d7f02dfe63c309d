"""A request for a certificate: all we take from it is the public key. Names, usages and extensions it asks for are
ignored, so that nobody can ask for more than he gets."""

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

MAX_BYTES = 8192
BEGIN, END = "-----BEGIN CERTIFICATE REQUEST-----", "-----END CERTIFICATE REQUEST-----"


class RequestRefused(ValueError):
    """What is wrong with it."""


def public_key_of(pem: str) -> bytes:
    """The public key (SubjectPublicKeyInfo, DER) whose holder made this request."""
    text = pem.strip()
    if len(text) > MAX_BYTES or not text.isascii():
        raise RequestRefused(f"it is more than {MAX_BYTES} bytes, or not PEM")
    if not text.startswith(BEGIN) or not text.endswith(END) or text.count("-----BEGIN") != 1:
        raise RequestRefused("it is not one PKCS #10 request in PEM")
    try:
        request = x509.load_pem_x509_csr(text.encode())
        key = request.public_key()
        whole = request.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature, x509.InvalidVersion) as error:
        raise RequestRefused("it cannot be read, or its key is of an unknown kind") from error
    if not isinstance(key, ed25519.Ed25519PublicKey) and not (
        isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)
    ):
        raise RequestRefused("its key is neither ECDSA P-256 nor Ed25519")
    if not whole:
        raise RequestRefused("its signature is not by its own key")
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
