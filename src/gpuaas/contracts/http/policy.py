"""Policy over HTTP: definitions, effective values with their origin, explanations, rehearsals."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import PageQuery, Query, Reason, Request, Response
from gpuaas.contracts.policy_keys import Level, Stricter, Value

PolicyName = Annotated[
    str,
    msgspec.Meta(
        min_length=3,
        max_length=100,
        pattern=r"^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$(?!\n)",
        examples=["identity.invitation_days"],
    ),
]
_Text = Annotated[str, msgspec.Meta(max_length=100)]
_Number = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]


class PolicyKind(StrEnum):
    NUMBER = "number"
    FLAG = "flag"
    CHOICE = "choice"


class Origin(StrEnum):
    """Where an effective value comes from."""

    DEFAULT = "default"
    GLOBAL = "global"
    ORG = "org"
    PROJECT = "project"


class PolicySet(Request, frozen=True, kw_only=True):
    value: Annotated[_Number | bool | _Text, msgspec.Meta(examples=[7, True, "full"])]
    guardrail: Annotated[bool, msgspec.Meta(description="No level below may set a weaker value.")] = False
    reason: Reason


class PolicyUnset(Query, frozen=True, kw_only=True):
    reason: Reason


class PlaceQuery(Query, frozen=True, kw_only=True):
    org_id: UUID | None = None
    project_id: Annotated[UUID, msgspec.Meta(description="Needs org_id, too.")] | None = None


class OrgRehearsalQuery(PageQuery, frozen=True, kw_only=True):
    """A change that is only thought of: a value, or none to take away what is set."""

    value: (
        Annotated[
            str, msgspec.Meta(max_length=100, description="The value to try; left out: what is set here is taken away.")
        ]
        | None
    ) = None
    guardrail: bool = False
    project_id: Annotated[UUID, msgspec.Meta(description="Try it in this project only.")] | None = None


class RehearsalQuery(OrgRehearsalQuery, frozen=True, kw_only=True):
    org_id: Annotated[UUID, msgspec.Meta(description="Try it in this organisation only.")] | None = None


class PolicyKeyView(Response, frozen=True, kw_only=True):
    name: str
    kind: PolicyKind
    description: str
    default: Value
    unit: str
    minimum: int | None
    maximum: int | None
    choices: list[str]
    stricter: Stricter
    levels: list[Level]
    platform_only: bool


class Guardrail(Response, frozen=True, kw_only=True):
    level: Level
    value: Value


class PolicyView(Response, frozen=True, kw_only=True):
    name: str
    value: Value
    unit: str
    origin: Origin
    held_by: (
        Annotated[
            Level, msgspec.Meta(description="The level whose guardrail holds the value, when what is set is weaker.")
        ]
        | None
    )
    guardrail: Annotated[Guardrail, msgspec.Meta(description="The strictest value set above that binds here.")] | None


class PolicyLayerView(Response, frozen=True, kw_only=True):
    """One level: what is set there (value null: nothing), by whom, when and why."""

    level: Origin
    value: Value | None
    guardrail: bool = False
    decides: bool = False
    too_weak: Annotated[bool, msgspec.Meta(description="Weaker than a guardrail above: not used as it is.")] = False
    set_by: str = ""
    set_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    reason: str = ""


class PolicyExplanation(Response, frozen=True, kw_only=True):
    name: str
    value: Value
    unit: str
    origin: Origin
    held_by: Level | None
    sentence: str
    layers: list[PolicyLayerView]


class Touched(Response, frozen=True, kw_only=True):
    """An organisation (project_id null) or project whose value would change."""

    org_id: UUID
    org_name: str
    project_id: UUID | None
    project_name: str | None
    before: Value
    after: Value
    held_by: Level | None


class PolicyRehearsal(Response, frozen=True, kw_only=True):
    """Whom the change would touch. Nothing was changed."""

    name: str
    before: Annotated[Value, msgspec.Meta(description="The value at the level of the change itself, now.")]
    after: Value
    touched_orgs: int
    touched_projects: int
    items: list[Touched]
    next_cursor: str | None = None
