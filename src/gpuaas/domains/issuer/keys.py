"""The built-in issuer's public keys, read from the database: verification asks no server for them."""

from typing import Any

from gpuaas.infra.postgres.database import AWAY, Database, away
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.infra.signing import Purpose, SigningKeys


class BuiltInKeys:
    """Implements `ports.issuer_keys.IssuerKeys`."""

    def __init__(self, db: Database, signing: SigningKeys) -> None:
        self._db = db
        self._signing = signing

    async def fetch(self) -> dict[str, Any]:
        try:
            async with self._db.read(Sight(PLATFORM)) as tx:
                return await self._signing.public_set(tx, Purpose.ISSUER)
        except AWAY as error:
            raise away(error) from error
