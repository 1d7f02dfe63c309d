"""What a node says of the seconds in which allocations could use its GPUs: the exact bytes that its key signs.

The counters only grow, so an old statement said again can only say less."""

import base64
import binascii
from collections.abc import Mapping
from uuid import UUID

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

_KIND = b"gpuaas usage 1\n"
_ALGORITHM = ec.ECDSA(hashes.SHA256())


def words(node_id: UUID, counters: Mapping[UUID, int]) -> bytes:
    said = {"node_id": str(node_id), "seconds": {str(who): counters[who] for who in sorted(counters)}}
    return _KIND + msgspec.json.encode(said)


def sign(private_key_pem: bytes, said: bytes) -> str:
    key = load_pem_private_key(private_key_pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("a node's key is on a curve")
    return base64.b64encode(key.sign(said, _ALGORITHM)).decode()


def signed_by(certificate: bytes, said: bytes, signature: str) -> bool:
    """Whether the holder of this certificate (DER) has signed these words."""
    key = x509.load_der_x509_certificate(certificate).public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return False
    try:
        key.verify(base64.b64decode(signature, validate=True), said, _ALGORITHM)
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True
