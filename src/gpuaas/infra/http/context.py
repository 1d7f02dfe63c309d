"""What a handler sees. The type of its context is the scope of its operation: the pipeline resolves and authorises
the organisation and project before the handler runs."""

from enum import StrEnum
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
    __slots__ = (
        "actor",
        "audit_details",
        "client_ip",
        "correlation_id",
        "cursors",
        "db",
        "headers",
        "org_id_or_none",
        "parts",
        "policy",
        "prepared",
        "project_id_or_none",
        "question",
        "subject_id",
        "tx",
        "unaudited",
    )

    def __init__(
        self,
        *,
        actor: Actor,
        correlation_id: str,
        client_ip: str,
        db: Database,
        policy: PolicyReader,
        parts: Parts,
        cursors: Cursors,
        headers: dict[bytes, bytes],
    ) -> None:
        self.actor = actor
        self.correlation_id = correlation_id
        self.client_ip = client_ip
        self.db = db
        self.policy = policy
        self.parts = parts
        self.cursors = cursors
        self.headers = headers
        self.tx: Tx
        self.org_id_or_none: OrgId | None = None
        self.project_id_or_none: ProjectId | None = None
        self.prepared: Any = None
        self.question = ""
        self.subject_id: UUID | None = None
        self.audit_details: dict[str, Any] = {}
        self.unaudited = False
        """Set by an issuer's endpoint when nothing happened: a poll that found nothing yet."""

    def cursor_position(self, cursor: str | None) -> list[str] | None:
        """Where the last page ended, as this list's own cursor says."""
        return None if cursor is None else self.cursors.read(self.question, cursor)

    def next_cursor(self, *position: object) -> str:
        return self.cursors.make(self.question, [str(part) for part in position])


class PublicContext(Context):
    __slots__ = ()
    scope = Scope.PUBLIC


class UserContext(Context):
    __slots__ = ()
    scope = Scope.USER

    @property
    def user_id(self) -> UUID:
        assert self.actor.id is not None  # noqa: S101 # the pipeline admits only actors with an id here
        return self.actor.id


class OrgContext(UserContext):
    __slots__ = ()
    scope = Scope.ORG

    @property
    def org_id(self) -> OrgId:
        assert self.org_id_or_none is not None  # noqa: S101 # resolved by the pipeline
        return self.org_id_or_none


class ProjectContext(OrgContext):
    __slots__ = ()
    scope = Scope.PROJECT

    @property
    def project_id(self) -> ProjectId:
        assert self.project_id_or_none is not None  # noqa: S101 # resolved by the pipeline
        return self.project_id_or_none


class PlatformContext(UserContext):
    __slots__ = ()
    scope = Scope.PLATFORM


class AgentContext(Context):
    """A node speaks, known by its certificate."""

    __slots__ = ()
    scope = Scope.AGENT

    @property
    def node_id(self) -> UUID:
        assert self.actor.id is not None  # noqa: S101 # the pipeline admits only nodes here
        return self.actor.id
