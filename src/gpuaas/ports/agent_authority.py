"""What the agents' listener asks: which node holds this certificate."""

from typing import Protocol

from gpuaas.contracts.actor import Actor


class AgentAuthority(Protocol):
    async def node(self, certificate: bytes | None) -> Actor:
        """The node behind a verified peer certificate (DER), at most a second old; raises Unauthenticated or Denied."""
        ...
