"""Rows of projects."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.kit.ids import ProjectId


class Project(msgspec.Struct, frozen=True):
    id: ProjectId
    org_id: UUID
    name: str
    title: str
    created_at: datetime
    deleted_at: datetime | None
    cost_centre: str = ""
