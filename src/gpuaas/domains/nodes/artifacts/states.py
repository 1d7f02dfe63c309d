"""The life of an agent's version. An upload nobody finishes is given up."""

from gpuaas.contracts.http.artifacts import ArtifactState as S
from gpuaas.kit.life import Life, exits, minutes, terminal

UPLOAD = minutes(60)
LIFE = Life(
    {
        S.UPLOADING: exits(S.PUBLISHED, S.RETIRED, deadline=UPLOAD, on_deadline=S.RETIRED),
        S.PUBLISHED: exits(S.RETIRED, rests="it is offered to nodes until an operator retires it"),
        S.RETIRED: terminal,
    },
    of="agent_artifacts",
)
