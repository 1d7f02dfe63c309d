"""What token verification asks of an issuer: its public keys as they are now."""

from typing import Any, Protocol

JwkSet = dict[str, Any]


class IssuerKeys(Protocol):
    async def fetch(self) -> JwkSet:
        """The issuer's JWK set, read anew; raises Unavailable when the issuer cannot be asked."""
        ...
