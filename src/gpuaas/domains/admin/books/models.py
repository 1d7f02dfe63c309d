"""What a comparison of everything comes to."""

import msgspec

from gpuaas.domains.billing.books.models import Equation
from gpuaas.domains.payments.reconciling.models import Difference, Report


class Reconciled(msgspec.Struct, frozen=True, kw_only=True):
    report: Report | None
    """What asking the provider came to; None: there is none."""
    equations: list[Equation]
    difference_count: int
    differences: list[Difference]

    @property
    def holds(self) -> bool:
        return self.difference_count == 0 and all(one.holds for one in self.equations)
