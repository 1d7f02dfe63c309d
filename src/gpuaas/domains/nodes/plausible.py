"""Instants that nodes tell: any zone and any skew, but within years that mean something."""

from datetime import datetime

from gpuaas.contracts.error_codes import Code
from gpuaas.kit.errors import Detail, Refused

FIRST_YEAR, LAST_YEAR = 2000, 2200


def require_plausible(at: datetime, field: str) -> None:
    if at.tzinfo is None:
        raise _refused(field, "it has no zone")
    if not FIRST_YEAR <= at.year <= LAST_YEAR:
        raise _refused(field, f"a year from {FIRST_YEAR} to {LAST_YEAR} is expected")


def require_plausible_all(value: object, field: str) -> None:
    """Every instant in what a node answered, however deep."""
    if isinstance(value, datetime):
        require_plausible(value, field)
    elif isinstance(value, dict):
        for name, inner in value.items():
            require_plausible_all(inner, f"{field}.{name}")
    elif isinstance(value, list):
        for inner in value:
            require_plausible_all(inner, field)


def _refused(field: str, reason: str) -> Refused:
    return Refused(
        Code.REQUEST_INVALID, f"{field} is not an instant that can be meant.", details=[Detail(field, reason)]
    )
