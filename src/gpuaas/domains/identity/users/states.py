"""The life of a user. Neither state is transitional, so neither has a deadline: an operator moves between them."""

from gpuaas.contracts.http.users import UserState as S
from gpuaas.kit.life import Life, exits

LIFE = Life(
    {
        S.ACTIVE: exits(S.DISABLED, rests="it can log in"),
        S.DISABLED: exits(S.ACTIVE, rests="for the operator who disabled it"),
    },
    of="users",
)
