"""Rows of quotas, and what counts against them."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.kit.ids import OrgId, ProjectId


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    org_id: OrgId
    project_id: ProjectId | None
    """None: of the whole organisation."""
    gpu_model: str
    gpus: int
    set_by: str
    set_at: datetime


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What an organisation and one of its projects have, and what was set for them; None: nothing was."""

    org_gpus: int
    project_gpus: int
    org_allocations: int
    project_allocations: int
    org_limit: int | None
    project_limit: int | None
