"""The certificate of sanitisation: what was cleaned after a release, how, and what showed it. In a DSSE envelope signed
with Ed25519, so that whoever has our public keys can check it without us."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.tasks.catalogue import Cleaning

CERTIFICATE_TYPE = "application/vnd.gpuaas.sanitisation+json"


class CheckedGpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    serial: str
    model: str
    clean: bool
    """Everything that was to be cleaned was, and the GPU was healthy afterwards. False: it went into quarantine."""
    detail: str


class SanitisationStatement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The signed payload."""

    certificate_id: UUID
    allocation_id: UUID
    org_id: UUID
    project_id: UUID
    node_id: UUID
    node_name: str
    isolation: str
    gpus: list[CheckedGpu]
    account_removed: bool
    processes_ended: int
    cleanings: list[Cleaning]
    held_from: datetime
    held_until: datetime
    issued_at: datetime
