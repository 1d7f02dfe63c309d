"""Rows of agents' versions."""

from datetime import datetime

import msgspec

from gpuaas.contracts.http.artifacts import ArtifactState
from gpuaas.kit.ids import ArtifactId


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    id: ArtifactId
    version: str
    digest: str
    size: int
    received: int
    state: ArtifactState
    state_since: datetime
    created_by: str
    created_at: datetime


class Part(msgspec.Struct, frozen=True, kw_only=True):
    artifact_id: ArtifactId
    number: int
    digest: str
    size: int

    @property
    def name(self) -> str:
        """Of the object that holds it."""
        return f"agent-artifacts/{self.artifact_id}/{self.number}-{self.digest}"
