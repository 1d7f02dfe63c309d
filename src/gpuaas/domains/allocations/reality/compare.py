"""What a node's agent observes against what the books say of the node, both ways. Pure: values in, differences out.

Always holds: an account or a lease that a live allocation may have on this node is no difference; an observation from
before an allocation's last change, or too soon after it, says nothing about that allocation."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from gpuaas.contracts.http.allocations import AllocationState, OrphanKind
from gpuaas.domains.allocations.models import login_of
from gpuaas.domains.allocations.states import HAS_ACCOUNT, S

MARGIN = timedelta(seconds=15)
"""An agent looks at its host before it tells, and what it tells is noted a moment later."""
MAX_DETAIL = 500
_LOGIN = re.compile(r"^g([0-9a-f]{12})[0-9a-f]{15}\Z")
SLACK_SECONDS = 300
SLACK_PARTS = 20
"""So much may a node's count be behind, or this part of the whole: it does not count while its agent is restarted."""
_REST = 80
"""Bits of an id that its first twelve digits leave open."""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What a node's agent told last."""

    node_id: UUID
    seen_at: datetime
    accounts: list[str]
    leases: dict[UUID, list[str]]
    usage: dict[UUID, int] = {}
    """Seconds in which each could use its GPUs here."""


class Booked(msgspec.Struct, frozen=True, kw_only=True):
    """An allocation, as the books have it on this node. No serials: it holds nothing there."""

    allocation_id: UUID
    state: AllocationState
    changed_at: datetime
    serials: list[str]
    charged_seconds: int | None = None

    @property
    def may_be_there(self) -> bool:
        return self.state in HAS_ACCOUNT and bool(self.serials)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    node_id: UUID
    kind: OrphanKind
    name: str
    allocation_id: UUID | None
    detail: str


def compare(seen: Observed, books: Sequence[Booked]) -> list[Difference]:
    """`books`: those who hold something on the node, and those whose accounts or leases it says it has."""
    settled = {one.allocation_id: seen.seen_at >= one.changed_at + MARGIN for one in books}
    by_login = {login_of(one.allocation_id): one for one in books}
    by_id = {one.allocation_id: one for one in books}
    found: list[Difference] = []

    def differs(kind: OrphanKind, name: str, of: UUID | None, detail: str) -> None:
        if of is None or settled.get(of, True):
            found.append(
                Difference(node_id=seen.node_id, kind=kind, name=name, allocation_id=of, detail=detail[:MAX_DETAIL])
            )

    for login in dict.fromkeys(seen.accounts):  # said twice, it is there once
        owner = by_login.get(login)
        if owner is None or not owner.may_be_there:
            differs(OrphanKind.ACCOUNT, login, None if owner is None else owner.allocation_id, _why(owner))
    for allocation_id, serials in seen.leases.items():
        owner = by_id.get(allocation_id)
        if owner is None or not owner.may_be_there:
            differs(OrphanKind.LEASE, str(allocation_id), allocation_id, f"{_listed(serials)}: {_why(owner)}")
        elif extra := set(serials) - set(owner.serials):
            detail = f"{_listed(extra)} as well, which the allocation does not hold"
            differs(OrphanKind.LEASE, str(allocation_id), allocation_id, detail)
    for one in books:
        if one.state not in (S.ACTIVE, S.STOPPED) or not one.serials:
            continue
        login = login_of(one.allocation_id)
        if login not in seen.accounts:
            differs(OrphanKind.MISSING_ACCOUNT, login, one.allocation_id, f"its allocation is {one.state}")
        if missing := set(one.serials) - set(seen.leases.get(one.allocation_id, [])):
            name = str(one.allocation_id)
            differs(
                OrphanKind.MISSING_LEASE,
                name,
                one.allocation_id,
                f"{_listed(missing)} of an allocation that is {one.state}",
            )
    for one in books:
        counted, charged = seen.usage.get(one.allocation_id), one.charged_seconds
        if counted is None or charged is None or not one.may_be_there:
            continue
        if counted + max(SLACK_SECONDS, charged // SLACK_PARTS) < charged:
            detail = f"its node counted {counted} usable seconds, {charged} are charged"
            differs(OrphanKind.USAGE, str(one.allocation_id), one.allocation_id, detail)
    return found


def born_with(login: str) -> tuple[UUID, UUID] | None:
    """Between which ids the allocation of this account must be; None: it is no name of ours."""
    match = _LOGIN.match(login)
    if match is None:
        return None
    first = int(match[1], 16) << _REST
    return UUID(int=first), UUID(int=first | ((1 << _REST) - 1))


def _why(owner: Booked | None) -> str:
    if owner is None:
        return "no allocation is known that had it"
    if owner.state in HAS_ACCOUNT:
        return f"its allocation is {owner.state} and holds nothing on this node"
    return f"its allocation is {owner.state}"


def _listed(serials: Sequence[str] | set[str]) -> str:
    return ", ".join(sorted(serials))
