"""The life of a node. It waits in each state for a person: nothing here is transitional."""

from gpuaas.contracts.http.nodes import NodeState as S
from gpuaas.kit.life import Life, exits, terminal

LIFE = Life(
    {
        S.ENROLLING: exits(S.ACTIVE, S.REMOVED, rests="for the command to be run on the machine; its token expires"),
        S.ACTIVE: exits(S.DISABLED, S.REMOVED, rests="it is in service"),
        S.DISABLED: exits(S.ACTIVE, S.REMOVED, rests="for the operator who disabled it"),
        S.REMOVED: terminal,
    },
    of="nodes",
)
