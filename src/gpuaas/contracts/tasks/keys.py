"""How one task key names the next: a statement in a DSSE envelope signed by a key that is already trusted. An agent takes
a new task key by enrolment or by such a chain, never because somebody served it."""

from datetime import datetime
from typing import Annotated

import msgspec

KEY_PAYLOAD_TYPE = "application/vnd.gpuaas.task-key+json"


class KeyStatement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The signed payload."""

    key_id: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    public_key: Annotated[str, msgspec.Meta(min_length=44, max_length=44)]
    """Ed25519, 32 bytes in base64."""
    issued_at: datetime
