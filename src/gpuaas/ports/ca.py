"""What we ask of a certificate authority: authorities of its own, and leaf certificates signed by one of them.

The built-in one computes; one that asks the network is called before the transaction (`prepare`), not inside."""

from datetime import datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID

import msgspec


class Usage(StrEnum):
    CLIENT = "client"
    SERVER = "server"


class Authority(msgspec.Struct, frozen=True, kw_only=True):
    """An authority as it is kept: its certificate, and its key as only the certificate authority can read it."""

    id: UUID
    certificate: bytes
    """DER."""
    key_sealed: bytes


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """What a certificate shall say. Nothing of it comes from whoever asks but the public key."""

    public_key: bytes
    """SubjectPublicKeyInfo, DER."""
    usage: Usage
    names: tuple[str, ...]
    """A client's is one URI; a server's are host names and addresses."""
    serial: int
    not_before: datetime
    not_after: datetime


class Validity(msgspec.Struct, frozen=True, kw_only=True):
    not_before: datetime
    not_after: datetime


class CertificateAuthority(Protocol):
    async def root(self, authority_id: UUID, subject: str, validity: Validity) -> Authority:
        """A new root."""
        ...

    async def intermediate(self, parent: Authority, authority_id: UUID, subject: str, validity: Validity) -> Authority:
        """A new authority that signs leaves, certified by a root."""
        ...

    async def cross(self, parent: Authority, root: Authority, validity: Validity) -> bytes:
        """A root's own key certified by another root (DER): for those who know the other only."""
        ...

    async def sign(self, authority: Authority, leaf: Leaf) -> bytes:
        """The certificate, DER."""
        ...
