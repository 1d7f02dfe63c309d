"""Agents' versions as they are shown."""

import msgspec

from gpuaas.contracts.http.artifacts import ArtifactView
from gpuaas.domains.nodes.artifacts.models import Artifact


def artifact_view(artifact: Artifact) -> ArtifactView:
    return ArtifactView(**msgspec.structs.asdict(artifact))
