"""What token verification asks of an issuer: its public keys as they are now."""

from typing import Any, Protocol


class IssuerKeys(Protocol):
    async def fetch(self) -> dict[str, Any]:
        """The issuer's JWK set, read anew; raises Unavailable when the issuer cannot be asked."""
        ...
