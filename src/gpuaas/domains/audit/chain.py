"""The hash chain over the audit log: which bytes are hashed, and how a link is checked.

Version 1. Every part is written as a 4-byte big-endian length and its bytes; a part that is NULL has the length
0xFFFFFFFF and no bytes, so no two different rows have the same bytes.

    row        the columns in the order of FIELDS: uuid as 16 bytes; text in UTF-8; `at` as 8-byte signed big-endian
               microseconds since 1970-01-01 UTC; `details` as PostgreSQL prints the jsonb, in UTF-8
    hash       SHA-256 of the parts: "gpuaas.audit.link.v1", seq (8 bytes), the hash before (32 bytes), row
    checkpoint what is signed, the parts: "gpuaas.audit.checkpoint.v1", seq (8 bytes), hash (32 bytes), `at` as above

The first link has seq 1; the hash before it is SHA-256 of "gpuaas.audit.genesis".
Always holds: changing any column of any row, its number or its neighbour changes its hash; what was hashed under one
version or purpose never verifies under another."""

import hashlib
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

VERSION = 1
GENESIS = hashlib.sha256(b"gpuaas.audit.genesis").digest()
_LINK = b"gpuaas.audit.link.v1"
_CHECKPOINT = b"gpuaas.audit.checkpoint.v1"
_NULL = b"\xff\xff\xff\xff"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class SealedRow(msgspec.Struct, frozen=True, kw_only=True):
    """An audit row as it is hashed: all of its columns, `details` as the database prints it."""

    id: UUID
    at: datetime
    action: str
    operation: str
    actor_kind: str
    actor_id: UUID | None
    actor_name: str
    org_id: UUID | None
    project_id: UUID | None
    subject_id: UUID | None
    correlation_id: str
    client_ip: str
    details: str


FIELDS = SealedRow.__struct_fields__


class Link(msgspec.Struct, frozen=True, kw_only=True):
    audit_id: UUID
    seq: int
    version: int = VERSION
    prev_hash: bytes
    hash: bytes


def row_bytes(row: SealedRow) -> bytes:
    return b"".join([_part(_bytes(getattr(row, field))) for field in FIELDS])


def link_hash(seq: int, prev_hash: bytes, row: SealedRow) -> bytes:
    return hashlib.sha256(_parts(_LINK, _number(seq), prev_hash, row_bytes(row))).digest()


def links(rows: list[SealedRow], *, after_seq: int, after_hash: bytes) -> list[Link]:
    """The rows as the next links of the chain."""
    made, seq, prev_hash = [], after_seq, after_hash
    for row in rows:
        seq += 1
        made.append(Link(audit_id=row.id, seq=seq, prev_hash=prev_hash, hash=link_hash(seq, prev_hash, row)))
        prev_hash = made[-1].hash
    return made


def checkpoint_bytes(seq: int, hash: bytes, at: datetime) -> bytes:
    return _parts(_CHECKPOINT, _number(seq), hash, _bytes(at) or b"")


class Walk:
    """Checks the chain link by link, in the order of their numbers, remembering only the last one."""

    def __init__(self, *, after_seq: int = 0, after_hash: bytes = GENESIS) -> None:
        self.seq = after_seq
        self.hash = after_hash

    def step(self, link: Link, row: SealedRow | None) -> list[str]:
        """What is wrong with this link. Goes on from what the link says, so that one change is found once."""
        problems = []
        if link.seq != self.seq + 1:
            problems.append(
                f"link {link.seq} is there twice"
                if link.seq == self.seq
                else f"links are missing between {self.seq} and {link.seq}"
            )
        if link.prev_hash != self.hash:
            problems.append(f"link {link.seq} is not attached to the link before it")
        if link.version != VERSION:
            problems.append(f"link {link.seq} has the unknown version {link.version}")
        elif row is None:
            problems.append(f"the row of link {link.seq} is gone")
        elif link.hash != link_hash(link.seq, link.prev_hash, row):
            problems.append(f"the row of link {link.seq}, or the link, was changed after it was sealed")
        self.seq, self.hash = link.seq, link.hash
        return problems


def _parts(*parts: bytes) -> bytes:
    return b"".join([_part(part) for part in parts])


def _part(part: bytes | None) -> bytes:
    return _NULL if part is None else len(part).to_bytes(4, "big") + part


def _number(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def _bytes(value: UUID | datetime | str | None) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, UUID):
        return value.bytes
    return _number((value - _EPOCH) // _MICROSECOND)
