"""Rows of policy: what is set at a place, and whom a change would touch."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.policy_keys import Level, Value
from gpuaas.domains.policy.layers import Decision, Layer


class Place(msgspec.Struct, frozen=True):
    """Where a policy is read or set: everywhere, an organisation, or a project of it."""

    org_id: UUID | None = None
    project_id: UUID | None = None

    @property
    def level(self) -> Level:
        if self.org_id is None:
            return Level.GLOBAL
        return Level.ORG if self.project_id is None else Level.PROJECT


class Override(msgspec.Struct, frozen=True):
    """What is set of one key at one place."""

    key: str
    place: Place
    value: Value
    guardrail: bool = False
    set_from: Level = Level.GLOBAL
    set_by_name: str = ""
    set_at: datetime | None = None
    reason: str = ""

    def layer(self) -> Layer:
        return Layer(
            level=self.place.level,
            value=self.value,
            guardrail=self.guardrail,
            set_from=self.set_from,
            set_by=self.set_by_name,
            set_at=self.set_at,
            reason=self.reason,
        )


class Pattern(msgspec.Struct, frozen=True):
    """What an organisation and a project of it have set themselves: subjects with the same pattern fare the same."""

    is_project: bool
    org_value: Value | None
    org_guardrail: bool | None
    project_value: Value | None
    project_guardrail: bool | None

    def layers(self) -> list[Layer]:
        found = []
        if self.org_value is not None:
            found.append(Layer(level=Level.ORG, value=self.org_value, guardrail=bool(self.org_guardrail)))
        if self.project_value is not None:
            found.append(Layer(level=Level.PROJECT, value=self.project_value, guardrail=bool(self.project_guardrail)))
        return found


class Subject(msgspec.Struct, frozen=True):
    """An organisation or project with what it has set."""

    org_id: UUID
    org_name: str
    project_id: UUID | None
    project_name: str | None
    pattern: Pattern


class Change(msgspec.Struct, frozen=True):
    """What was in force before, and what is set now."""

    before: Value
    layers: list[Layer]


class Rehearsal(msgspec.Struct, frozen=True):
    before: Value
    after: Value
    touched_orgs: int
    touched_projects: int
    items: list[tuple[Subject, Decision, Decision]]
    next_position: tuple[UUID, UUID] | None
