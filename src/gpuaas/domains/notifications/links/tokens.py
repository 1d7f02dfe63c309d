"""How a one-click link is written: its id and our signature of it. Whoever has the link may use it, and nobody can make
one: what is stored lets nobody use one either."""

import base64
import hashlib
import hmac
from uuid import UUID

from gpuaas.kit.ids import LinkId
from gpuaas.kit.secrets import LINK_PREFIX, MasterKey

_ID_BYTES = 16
_SIGNATURE_BYTES = 32
PATH = "/go/"


class LinkSigner:
    def __init__(self, master: MasterKey, public_url: str) -> None:
        self._key = master.link_key
        self.public_url = public_url.rstrip("/")

    def url(self, link_id: UUID) -> str:
        return f"{self.public_url}{PATH}{self.token(link_id)}"

    def token(self, link_id: UUID) -> str:
        written = base64.urlsafe_b64encode(link_id.bytes + self._signature(link_id)).decode()
        return LINK_PREFIX + written

    def read(self, token: str) -> LinkId | None:
        """The id, if the signature is ours."""
        try:
            raw = base64.b64decode(token.removeprefix(LINK_PREFIX), altchars=b"-_", validate=True)
        except ValueError:
            return None
        if len(raw) != _ID_BYTES + _SIGNATURE_BYTES:
            return None
        link_id = UUID(bytes=raw[:_ID_BYTES])
        genuine = hmac.compare_digest(raw[_ID_BYTES:], self._signature(link_id)) and token == self.token(link_id)
        return LinkId(link_id) if genuine else None

    def _signature(self, link_id: UUID) -> bytes:
        return hmac.digest(self._key, link_id.bytes, hashlib.sha256)
