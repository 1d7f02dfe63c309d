"""The keys we sign with: ES256 for the built-in issuer's tokens, Ed25519 for the audit log's checkpoints and for
certificates of sanitisation.

Always holds: a private key is stored sealed with the master key and unsealed only here; one key signs for a purpose at
a time, and was published before it did; a retired key still verifies until its overlap ends, so nothing signed before a
rotation breaks."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, OKPKey

from gpuaas.infra.postgres import signing_keys
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.secrets import MasterKey

OVERLAP_SECONDS = 86_400  # longer than any access token may live
PrivateKey = ECKey | OKPKey


class Purpose(StrEnum):
    ISSUER = "issuer"
    AUDIT = "audit"
    SANITISATION = "sanitisation"


ALGORITHM = {Purpose.ISSUER: "ES256", Purpose.AUDIT: "Ed25519", Purpose.SANITISATION: "Ed25519"}
# A new key is published before it signs: verifiers read an issuer's keys every five minutes.
LEAD_SECONDS = {Purpose.ISSUER: 330, Purpose.AUDIT: 0, Purpose.SANITISATION: 0}


class Signer:
    """The private half of a key, in memory only."""

    def __init__(self, purpose: Purpose, key_id: str, key: PrivateKey) -> None:
        self.key_id = key_id
        self.algorithm = ALGORITHM[purpose]
        self._key = key

    def token(self, claims: dict[str, Any], *, typ: str) -> str:
        """A JWT of these claims."""
        header = {"alg": self.algorithm, "kid": self.key_id, "typ": typ}
        return jwt.encode(header, claims, self._key, algorithms=[self.algorithm])

    def sign(self, data: bytes) -> bytes:
        """A bare signature over bytes."""
        algorithm = jws.JWSRegistry.algorithms[self.algorithm]
        return algorithm.sign(data, self._key)


class PublicKey(msgspec.Struct, frozen=True, kw_only=True):
    key_id: str
    jwk: dict[str, Any]
    signs_from: datetime
    signs_until: datetime | None
    valid_until: datetime | None

    def verifies(self, data: bytes, signature: bytes) -> bool:
        algorithm = jws.JWSRegistry.algorithms[self.jwk["alg"]]
        try:
            return bool(algorithm.verify(data, signature, _import(self.jwk)))
        except (JoseError, ValueError):
            return False


class SigningKeys:
    """Keys by purpose. Which key signs is read in the caller's transaction, so a rotation is seen at once."""

    def __init__(self, master: MasterKey) -> None:
        self._master = master
        self._unsealed: dict[str, Signer] = {}

    async def signer(self, tx: Tx, purpose: Purpose) -> Signer:
        """The key that signs now; the first caller ever makes it (in a transaction that may write)."""
        row = await signing_keys.current(tx, purpose)
        if row is None:
            await signing_keys.lock(tx, purpose)
            row = await signing_keys.current(tx, purpose)
        if row is None:
            return await self._create(tx, purpose)
        known = self._unsealed.get(row["key_id"])
        if known is None:
            known = self._unseal(purpose, row["key_id"], row["private_sealed"])
            self._unsealed[known.key_id] = known
        return known

    async def public_set(self, tx: Tx, purpose: Purpose) -> dict[str, Any]:
        """The JSON Web Key Set of all keys whose signatures still count, the signing one first."""
        return {"keys": [msgspec.json.decode(jwk) for jwk in await signing_keys.valid_jwks(tx, purpose)]}

    async def public_keys(self, tx: Tx, purpose: Purpose) -> list[PublicKey]:
        """Every key there ever was, newest first: for checking what was signed long ago."""
        return [
            PublicKey(
                key_id=key.key_id,
                jwk=msgspec.json.decode(key.public_jwk),
                signs_from=key.signs_from,
                signs_until=key.signs_until,
                valid_until=key.valid_until,
            )
            for key in await signing_keys.all_keys(tx, purpose)
        ]

    async def read_token(self, tx: Tx, purpose: Purpose, token: str, *, typ: str) -> dict[str, Any] | None:
        """The claims of a token we signed with a key that still counts, expired or not; None for anything else."""
        keys = KeySet([_import(jwk) for jwk in (await self.public_set(tx, purpose))["keys"]])
        try:
            found = jwt.decode(token, keys, algorithms=[ALGORITHM[purpose]])
        except (JoseError, ValueError):
            return None
        return found.claims if found.header.get("typ") == typ else None

    async def rotate(self, tx: Tx, purpose: Purpose, *, distrust_old: bool = False) -> Signer:
        """A new key, published at once, signs after its lead; the old ones verify for the overlap after that.
        Distrusted, the old ones count no more from this commit on, and the new one signs at once."""
        await signing_keys.lock(tx, purpose)
        if distrust_old:
            await signing_keys.distrust(tx, purpose)
            return await self._create(tx, purpose)
        lead = LEAD_SECONDS[purpose]
        await signing_keys.retire(tx, purpose, lead_seconds=lead, overlap_seconds=OVERLAP_SECONDS)
        return await self._create(tx, purpose, lead_seconds=lead)

    async def _create(self, tx: Tx, purpose: Purpose, *, lead_seconds: int = 0) -> Signer:
        key: PrivateKey = ECKey.generate_key("P-256") if purpose is Purpose.ISSUER else OKPKey.generate_key("Ed25519")
        key_id = key.thumbprint()
        public = {**key.as_dict(private=False), "kid": key_id, "alg": ALGORITHM[purpose], "use": "sig"}
        sealed = self._master.seal(msgspec.json.encode(key.as_dict(private=True)), _seal_purpose(purpose, key_id))
        published = msgspec.json.encode(public).decode()
        await signing_keys.add(tx, purpose, key_id, published, sealed, lead_seconds=lead_seconds)
        return Signer(purpose, key_id, key)

    def _unseal(self, purpose: Purpose, key_id: str, sealed: bytes) -> Signer:
        jwk = msgspec.json.decode(self._master.unseal(sealed, _seal_purpose(purpose, key_id)))
        return Signer(purpose, key_id, _import(jwk))


def _seal_purpose(purpose: Purpose, key_id: str) -> str:
    """Binds the box to its row: a sealed key moved to another row does not open."""
    return f"signing-key:{purpose}:{key_id}"


def _import(jwk: dict[str, Any]) -> PrivateKey:
    return ECKey.import_key(jwk) if jwk["kty"] == "EC" else OKPKey.import_key(jwk)
