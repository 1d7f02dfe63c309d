"""Secrets: how they are made, recognised, hashed and sealed. A secret is stored only as a hash, or sealed with the
master key; it never appears in a log because `kit.log.scrub` knows its prefix."""

import base64
import hashlib
import os
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SERVICE_KEY_PREFIX = "gpuaas_sk_"
REFRESH_PREFIX = "gpuaas_rt_"
INVITATION_PREFIX = "gpuaas_inv_"
BOOTSTRAP_PREFIX = "gpuaas_bt_"
LINK_PREFIX = "gpuaas_go_"
PREFIXES = (SERVICE_KEY_PREFIX, REFRESH_PREFIX, INVITATION_PREFIX, BOOTSTRAP_PREFIX, LINK_PREFIX, "gpuaas_")
MASTER_KEY_BYTES = 32


def new_token(prefix: str = "") -> str:
    """256 random bits, written for a URL."""
    return prefix + secrets.token_urlsafe(32)


def token_hash(token: str) -> bytes:
    """For tokens with 256 random bits; passwords use argon2id instead."""
    return hashlib.sha256(token.encode()).digest()


class MasterKey:
    """Seals what must be stored and read again (signing keys). AES-256-GCM; the purpose is bound to the box."""

    def __init__(self, key: bytes) -> None:
        if len(key) != MASTER_KEY_BYTES:
            raise ValueError(f"the master key must be {MASTER_KEY_BYTES} bytes, this one is {len(key)}")
        self._aead = AESGCM(hashlib.sha256(b"seal:" + key).digest())
        self.cursor_key = hashlib.sha256(b"cursors:" + key).digest()
        self.link_key = hashlib.sha256(b"links:" + key).digest()

    @classmethod
    def from_text(cls, text: str) -> "MasterKey":
        return cls(base64.b64decode(text, validate=True))

    def seal(self, plain: bytes, purpose: str) -> bytes:
        nonce = os.urandom(12)
        return nonce + self._aead.encrypt(nonce, plain, purpose.encode())

    def unseal(self, box: bytes, purpose: str) -> bytes:
        try:
            return self._aead.decrypt(box[:12], box[12:], purpose.encode())
        except InvalidTag as error:
            raise ValueError(f"cannot unseal {purpose}: not sealed with this master key") from error
