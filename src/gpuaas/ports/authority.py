"""What the request pipeline asks of identity: who holds this credential, and which organisation owns this project."""

from typing import Protocol

from gpuaas.contracts.actor import Actor
from gpuaas.kit.ids import OrgId, ProjectId


class Authority(Protocol):
    def recall(self, credential: str) -> Actor | None:
        """The actor behind a credential that was read less than a second ago; None: ask `actor`."""
        ...

    async def actor(self, credential: str, *, fresh: bool = False) -> Actor:
        """The actor behind a bearer credential, at most a second old, or read anew when `fresh`; raises
        Unauthenticated or Denied."""
        ...

    async def org_of(self, project_id: ProjectId) -> OrgId | None:
        """The organisation of a live project, or None."""
        ...

    async def org_exists(self, org_id: OrgId) -> bool: ...
