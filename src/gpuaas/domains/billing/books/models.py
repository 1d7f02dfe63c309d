"""What the books say as a whole."""

import msgspec

from gpuaas.contracts.http.billing import AccountKind, Unit


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """All accounts of a kind in a currency."""

    kind: AccountKind
    currency: str
    accounts: int
    entries: int
    balance_micros: int


class Problem(msgspec.Struct, frozen=True):
    subject: str
    problem: str


class Equation(msgspec.Struct, frozen=True, kw_only=True):
    """Two sums that have to be the same, and the first rows that differ."""

    name: str
    statement: str
    currency: str
    left: int
    right: int
    unit: Unit = Unit.MICROS
    note: str = ""
    first: list[Problem] = []

    @property
    def difference(self) -> int:
        return self.left - self.right

    @property
    def holds(self) -> bool:
        return self.left == self.right and not self.first


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    transactions: int
    entries: int
    count: int
    problems: list[Problem]
    """The first of them."""
