"""Pages of a list. A cursor is opaque and signed: it names the last row seen and the question it answers, so a cursor
that was forged, or taken from another list, filter or tenant, is refused instead of answering something else."""

import base64
import hashlib
import hmac

import msgspec

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
_MAC_BYTES = 16


class CursorRefused(ValueError):
    """The cursor was not made by us for this question."""


class Cursors:
    """Makes and reads cursors with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.sha256(b"cursor:" + key).digest()

    def make(self, question: str, position: list[str]) -> str:
        body = msgspec.json.encode(position)
        return base64.urlsafe_b64encode(self._mac(question, body) + body).decode().rstrip("=")

    def read(self, question: str, cursor: str) -> list[str]:
        try:
            raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            mac, body = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
            if not hmac.compare_digest(mac, self._mac(question, body)):
                raise CursorRefused
            return msgspec.json.decode(body, type=list[str])
        except (ValueError, msgspec.MsgspecError) as error:
            raise CursorRefused from error

    def _mac(self, question: str, body: bytes) -> bytes:
        return hashlib.blake2b(question.encode() + b"\0" + body, key=self._key, digest_size=_MAC_BYTES).digest()
