"""How one task key names the next: a statement in a DSSE envelope signed by the key before it. An agent takes a new
task key by enrolment or by such a chain, never because somebody served it."""

from datetime import datetime
from typing import Annotated

import msgspec

STATEMENT_TYPE = "application/vnd.gpuaas.task-key+json"
KeyName = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class KeyStatement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The signed payload: `previous_key_id` is the key that signs it."""

    key_id: KeyName
    public_key: Annotated[str, msgspec.Meta(min_length=44, max_length=44)]
    """Ed25519, 32 bytes in base64."""
    previous_key_id: KeyName
    issued_at: datetime
