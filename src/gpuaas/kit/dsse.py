"""DSSE envelopes: a signature over exact bytes and their type, so that nothing is parsed before it is verified.
https://github.com/secure-systems-lab/dsse, version 1."""

import base64
import binascii
from collections.abc import Mapping
from typing import Protocol

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MAX_ENVELOPE_BYTES = 256 * 1024


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keyid: str
    sig: str


class Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    payload_type: str
    payload: str
    signatures: list[Signature]


class EnvelopeRefused(ValueError):
    """The bytes are not an envelope signed by a key we trust for this type."""


class Signs(Protocol):
    def sign(self, data: bytes, /) -> bytes: ...


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """What is really signed: type and payload, each with its length."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def seal(payload_type: str, payload: bytes, key_id: str, key: Signs) -> bytes:
    signature = key.sign(pre_authentication(payload_type, payload))
    return msgspec.json.encode(
        Envelope(
            payload_type=payload_type,
            payload=base64.b64encode(payload).decode(),
            signatures=[Signature(key_id, base64.b64encode(signature).decode())],
        )
    )


def unseal(envelope: bytes, payload_type: str, keys: Mapping[str, Ed25519PublicKey]) -> tuple[bytes, str]:
    """The payload and the id of the key that signed it. Exactly one signature, by a key in `keys`, over exactly these
    bytes and this type; base64 in its one canonical spelling, so that no byte of an envelope can change unnoticed."""
    if len(envelope) > MAX_ENVELOPE_BYTES:
        raise EnvelopeRefused("the envelope is too large")
    try:
        found = msgspec.json.decode(envelope, type=Envelope)
        if msgspec.json.encode(found) != envelope:
            raise EnvelopeRefused("the envelope is not in its canonical form")
        payload = _canonical_base64(found.payload)
        if found.payload_type != payload_type or len(found.signatures) != 1:
            raise EnvelopeRefused("the envelope has another type, or not one signature")
        signature = found.signatures[0]
        key = keys[signature.keyid]
        key.verify(_canonical_base64(signature.sig), pre_authentication(payload_type, payload))
    except KeyError as error:
        raise EnvelopeRefused("the envelope is signed by a key that is not trusted") from error
    except (msgspec.MsgspecError, binascii.Error, UnicodeError, InvalidSignature) as error:
        raise EnvelopeRefused("the envelope's signature does not hold") from error
    return payload, signature.keyid


def _canonical_base64(text: str) -> bytes:
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise EnvelopeRefused("the envelope is not in its canonical form")
    return data
