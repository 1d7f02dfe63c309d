"""Which part of the work a worker does, so that money, mail and flows can be given machines of their own.

Always holds: every reaction and timer belongs to exactly one role beside `all`, by the domain its name begins with.
What no role names is done with the flows."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

from gpuaas.infra.events import Reaction, Timer


class Role(StrEnum):
    ALL = "all"
    FLOWS = "flows"
    BILLING = "billing"
    NOTIFICATIONS = "notifications"


_OF_DOMAIN = {"billing": Role.BILLING, "payments": Role.BILLING, "notifications": Role.NOTIFICATIONS}
H = TypeVar("H", Reaction, Timer)


def role_of(name: str) -> Role:
    """Of a reaction's or timer's name: `domain.what_it_does`."""
    return _OF_DOMAIN.get(name.split(".")[0], Role.FLOWS)


def mine(role: Role, declared: Iterable[H]) -> list[H]:
    return [one for one in declared if role in (Role.ALL, role_of(one.name))]


def runs_flows(role: Role) -> bool:
    return role in (Role.ALL, Role.FLOWS)
