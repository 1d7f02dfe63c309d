"""Which SSH public keys we take. What is stored is written anew from what was parsed, so that nothing else of a user's
text can ever reach an authorized_keys file.

Refused: more than one line, options, certificates, DSA, RSA below 3072 bits or with a weak exponent, keys that do not
parse, private keys."""

import base64
import binascii
import hashlib
import re

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from gpuaas.contracts.error_codes import Code
from gpuaas.kit.errors import Detail, Refused

MIN_RSA_BITS = 3072
MAX_RSA_BITS = 16384
MIN_RSA_EXPONENT = 65537
MAX_COMMENT = 120
_PLAIN = frozenset({
    "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa",
})  # fmt: skip
# Keys that live in a security token: the same curves, with the application they are bound to.
_SECURITY_TOKEN = {
    "sk-ssh-ed25519@openssh.com": "ssh-ed25519",
    "sk-ecdsa-sha2-nistp256@openssh.com": "ecdsa-sha2-nistp256",
}
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


class SshPublicKey(msgspec.Struct, frozen=True, kw_only=True):
    algorithm: str
    line: str
    """Type and key, without the comment."""
    comment: str
    fingerprint: str


def parse(text: str) -> SshPublicKey:
    line = text.strip(" \t\r\n")
    if not line.isprintable():
        raise _refused("it must be one line, without control characters")
    if "PRIVATE KEY" in line:
        raise _refused("this is a private key: keep it to yourself, and send the .pub file")
    words = line.split(" ", 2)
    algorithm = words[0]
    if algorithm not in _PLAIN and algorithm not in _SECURITY_TOKEN:
        raise _refused("it must begin with its type (ssh-ed25519, ecdsa-sha2-…, ssh-rsa, sk-…) and have no options")
    if len(words) < 2 or not _BASE64.fullmatch(words[1]):
        raise _refused("after the type comes the key in base64")
    blob = _blob(words[1])
    fields = _fields(blob)
    if fields[0] != algorithm.encode():
        raise _refused("the key is of another type than it says")
    if algorithm in _SECURITY_TOKEN:
        _check_security_token(algorithm, fields)
    else:
        _check_plain(algorithm, blob)
    return SshPublicKey(
        algorithm=algorithm,
        line=f"{algorithm} {base64.b64encode(blob).decode()}",
        comment=_clean(words[2] if len(words) > 2 else ""),
        fingerprint="SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("="),
    )


def _check_plain(algorithm: str, blob: bytes) -> None:
    try:
        key = load_ssh_public_key(f"{algorithm} {base64.b64encode(blob).decode()}".encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _refused("the key does not parse") from error
    if isinstance(key, RSAPublicKey):
        if not MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
            raise _refused(f"an RSA key needs {MIN_RSA_BITS} bits or more, this one has {key.key_size}")
        exponent = key.public_numbers().e
        if exponent < MIN_RSA_EXPONENT or exponent % 2 == 0:
            raise _refused("the RSA key's exponent is weak")


def _check_security_token(algorithm: str, fields: list[bytes]) -> None:
    """The application comes last; what is before it is a plain key of the same curve."""
    plain = _SECURITY_TOKEN[algorithm]
    inner = fields[1:-1]
    application = fields[-1]
    if not 1 <= len(application) <= 255 or not application.decode("utf-8", "replace").isprintable():
        raise _refused("the security key's application is not one")
    if len(inner) != (1 if plain == "ssh-ed25519" else 2):
        raise _refused("the key does not parse")
    _check_plain(plain, b"".join(len(part).to_bytes(4, "big") + part for part in (plain.encode(), *inner)))


def _blob(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _refused("the key is not valid base64") from error


def _fields(blob: bytes) -> list[bytes]:
    """RFC 4251 strings, to the last byte: nothing may hang behind the key."""
    fields: list[bytes] = []
    at = 0
    while at < len(blob):
        length = int.from_bytes(blob[at : at + 4], "big")
        at += 4
        if at + length > len(blob) or len(fields) > 8:
            raise _refused("the key does not parse")
        fields.append(blob[at : at + length])
        at += length
    if len(fields) < 2:
        raise _refused("the key does not parse")
    return fields


def _clean(comment: str) -> str:
    """What may stand in a list, a log and an authorized_keys file."""
    return " ".join(re.sub(r"[^A-Za-z0-9 @._+:/=-]", "", comment[:1000]).split())[:MAX_COMMENT].rstrip()


def _refused(why: str) -> Refused:
    return Refused(Code.SSH_KEY_INVALID, f"This SSH key is not accepted: {why}.", details=[Detail("public_key", why)])
