"""What a handler sees. The type of its context is the scope of its operation: the pipeline resolves and authorises
the organisation and project before the handler runs."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID

from gpuaas.contracts.actor import Actor
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.ids import OrgId, ProjectId
from gpuaas.kit.paging import Cursors
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader


class Scope(StrEnum):
    PUBLIC = "public"
    USER = "user"
    ORG = "org"
    PROJECT = "project"
    PLATFORM = "platform"
    AGENT = "agent"


class Context:
    """Common to all scopes. `tx` is the request's one transaction; `db` is for streams and snapshots only."""

    scope: Scope
    tx: Tx
    org_id_or_none: OrgId | None = None
    project_id_or_none: ProjectId | None = None
    prepared: Any = None
    question = ""
    subject_id: UUID | None = None
    audit_details: Mapping[str, Any] = MappingProxyType({})
    unaudited = False
    """Set by an issuer's endpoint when nothing happened: a poll that found nothing yet."""

    def __init__(
        self,
        actor: Actor,
        correlation_id: str,
        client_ip: str,
        headers: dict[bytes, bytes],
        db: Database,
        policy: PolicyReader,
        parts: Parts,
        cursors: Cursors,
    ) -> None:
        self.actor = actor
        self.correlation_id = correlation_id
        self.client_ip = client_ip
        self.headers = headers
        self.db = db
        self.policy = policy
        self.parts = parts
        self.cursors = cursors

    def cursor_position(self, cursor: str | None) -> list[str] | None:
        """Where the last page ended, as this list's own cursor says."""
        return None if cursor is None else self.cursors.read(self.question, cursor)

    def next_cursor(self, *position: object) -> str:
        return self.cursors.make(self.question, [str(part) for part in position])


class PublicContext(Context):
    scope = Scope.PUBLIC


class UserContext(Context):
    scope = Scope.USER

    @property
    def user_id(self) -> UUID:
        assert self.actor.id is not None  # noqa: S101 # the pipeline admits only actors with an id here
        return self.actor.id


class OrgContext(UserContext):
    scope = Scope.ORG

    @property
    def org_id(self) -> OrgId:
        assert self.org_id_or_none is not None  # noqa: S101 # resolved by the pipeline
        return self.org_id_or_none


class ProjectContext(OrgContext):
    scope = Scope.PROJECT

    @property
    def project_id(self) -> ProjectId:
        assert self.project_id_or_none is not None  # noqa: S101 # resolved by the pipeline
        return self.project_id_or_none


class PlatformContext(UserContext):
    scope = Scope.PLATFORM


class AgentContext(Context):
    """A node speaks, known by its certificate."""

    scope = Scope.AGENT

    @property
    def node_id(self) -> UUID:
        assert self.actor.id is not None  # noqa: S101 # the pipeline admits only nodes here
        return self.actor.id
