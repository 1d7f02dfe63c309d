"""Versions of the agent, as operators publish them and nodes fetch them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import PageQuery, Reason, Request, Response

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
PART_BYTES = 2 * 1024 * 1024
"""Every part but the last has so many."""
MOST_PARTS = 512
_ENCODED = (PART_BYTES + 2) // 3 * 4
PART_BODY = _ENCODED + 1024
AgentVersion = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=60, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$(?!\n)", examples=["1.4.2"]),
]
FileDigest = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}$(?!\n)", max_length=71)]
PartNumber = Annotated[int, msgspec.Meta(ge=1, le=MOST_PARTS)]


class ArtifactState(StrEnum):
    UPLOADING = "uploading"
    PUBLISHED = "published"
    RETIRED = "retired"
    """No node is told to become it any more; its bytes are deleted a day later."""


class ArtifactCreate(Request, frozen=True, kw_only=True):
    version: AgentVersion
    digest: FileDigest
    """Of the whole file; every order to become this version names it, signed."""
    size: Annotated[int, msgspec.Meta(ge=1, le=PART_BYTES * MOST_PARTS)]


class ArtifactPart(Request, frozen=True, kw_only=True):
    content: Annotated[str, msgspec.Meta(min_length=4, max_length=_ENCODED, pattern=r"^[A-Za-z0-9+/]+={0,2}$(?!\n)")]
    """Base64. Every part but the last is 2 MiB."""


class ArtifactRetire(Request, frozen=True, kw_only=True):
    reason: Reason


class ArtifactView(Response, frozen=True, kw_only=True):
    id: UUID
    version: str
    digest: str
    size: int
    received: int
    """Bytes that were uploaded."""
    state: ArtifactState
    state_since: Instant
    created_by: str
    created_at: Instant


class ArtifactListQuery(PageQuery, frozen=True, kw_only=True):
    state: ArtifactState | None = None
    version: AgentVersion | None = None


class NodeAgentUpdate(Request, frozen=True, kw_only=True):
    version: AgentVersion
    healthy_within_seconds: Annotated[int, msgspec.Meta(ge=5, le=300)] = 60
    """By when the control plane must have heard from the new version; otherwise the old one comes back."""
