"""Rows of one-click links, what an action is, and what comes of one."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.permissions import Permission
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.ids import LinkId, OrgId, ProjectId, UserId
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader


class Link(msgspec.Struct, frozen=True, kw_only=True):
    id: LinkId
    org_id: OrgId
    user_id: UserId
    action: str
    subject_id: UUID | None
    detail: str
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None
    outcome: str
    expired: bool


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody follows a link: for whom it was made, with what he may do now."""

    tx: Tx
    link: Link
    actor: Actor
    org_id: OrgId
    policy: PolicyReader
    parts: Parts


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What will happen, in words; without a button nothing can."""

    title: str
    text: str
    button: str = ""
    facts: list[tuple[str, str]] = []
    project_id: ProjectId | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, in words; and where to go on, if anywhere."""

    title: str
    text: str
    redirect: str = ""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """Something a link can do. `prepare` may use the network, before the transaction; `act` is given what it said."""

    name: str
    permission: Permission
    describe: Callable[[Visit], Awaitable[Preview]]
    act: Callable[[Visit, object], Awaitable[Outcome]]
    prepare: Callable[[Visit], Awaitable[object]] | None = None
    leads_out: bool = False
    """Its outcome redirects to another site."""
    again: bool = False
    """What it does is known by its link: pressed again, it leads to the same."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """What a visitor is shown."""

    title: str
    text: str
    status: int = 200
    button: str = ""
    facts: list[tuple[str, str]] = []
    leads_out: bool = False
    redirect: str = ""
    done_by: Actor | None = None
    link: Link | None = None
