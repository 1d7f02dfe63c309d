"""Verbs of agents' versions."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.artifacts import (
    ArtifactCreate,
    ArtifactListQuery,
    ArtifactPart,
    ArtifactRetire,
    ArtifactView,
)
from gpuaas.contracts.http.base import Page


def artifact_list(query: ArtifactListQuery) -> Call[Page[ArtifactView]]:
    path = "/agent-artifacts"
    return Call(operation="artifact_list", method="GET", path=path, answer=Page[ArtifactView], query=query)


def artifact_create(wanted: ArtifactCreate) -> Call[ArtifactView]:
    return Call(operation="artifact_create", method="POST", path="/agent-artifacts", answer=ArtifactView, body=wanted)


def artifact_upload(artifact_id: UUID, number: int, wanted: ArtifactPart) -> Call[ArtifactView]:
    path = f"/agent-artifacts/{artifact_id}/parts/{number}"
    return Call(operation="artifact_upload", method="PUT", path=path, answer=ArtifactView, body=wanted)


def artifact_publish(artifact_id: UUID) -> Call[ArtifactView]:
    path = f"/agent-artifacts/{artifact_id}/publish"
    return Call(operation="artifact_publish", method="POST", path=path, answer=ArtifactView)


def artifact_retire(artifact_id: UUID, wanted: ArtifactRetire) -> Call[ArtifactView]:
    path = f"/agent-artifacts/{artifact_id}/retire"
    return Call(operation="artifact_retire", method="POST", path=path, answer=ArtifactView, body=wanted)
