"""What the books say as a whole."""

import msgspec

from gpuaas.contracts.http.billing import AccountKind


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """All accounts of a kind in a currency."""

    kind: AccountKind
    currency: str
    accounts: int
    entries: int
    balance_micros: int


class Equation(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    statement: str
    currency: str
    left_micros: int
    right_micros: int

    @property
    def holds(self) -> bool:
        return self.left_micros == self.right_micros


class Problem(msgspec.Struct, frozen=True):
    subject: str
    problem: str


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    transactions: int
    entries: int
    count: int
    problems: list[Problem]
    """The first of them."""
