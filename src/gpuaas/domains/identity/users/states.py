"""The life of a user. Neither state is transitional, so neither has a deadline: an operator moves between them."""

from gpuaas.contracts.http.users import UserState as S

SOURCES: dict[S, frozenset[S]] = {S.DISABLED: frozenset({S.ACTIVE}), S.ACTIVE: frozenset({S.DISABLED})}
