"""Sensitive fields at rest: each is sealed with a data key (AES-256-GCM), each data key with the master key.

Always holds: a box names the key that opens it, and is bound to the row and column it was made for, so that one moved
elsewhere does not open; after a rotation new boxes are made with the new key, and the old ones still open."""

import os
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gpuaas.infra.postgres import data_keys
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.ids import new_id
from gpuaas.kit.secrets import MasterKey

_ID_BYTES = 16
_NONCE_BYTES = 12
KEY_BITS = 256


class FieldSealer:
    def __init__(self, master: MasterKey) -> None:
        self._master = master
        self._opened: dict[UUID, AESGCM] = {}

    async def seal(self, tx: Tx, plain: bytes, bound_to: str) -> bytes:
        """`bound_to` names the place: table, column and row."""
        key_id, key = await self._current(tx)
        nonce = os.urandom(_NONCE_BYTES)
        return key_id.bytes + nonce + key.encrypt(nonce, plain, bound_to.encode())

    async def unseal(self, tx: Tx, box: bytes, bound_to: str) -> bytes:
        key_id = UUID(bytes=box[:_ID_BYTES])
        nonce, sealed = box[_ID_BYTES : _ID_BYTES + _NONCE_BYTES], box[_ID_BYTES + _NONCE_BYTES :]
        try:
            return (await self._key(tx, key_id)).decrypt(nonce, sealed, bound_to.encode())
        except InvalidTag as error:
            raise ValueError(f"cannot open {bound_to}: it was not sealed there, or not with this key") from error

    async def rotate(self, tx: Tx) -> UUID:
        """A new key for what is sealed from now on."""
        await data_keys.retire(tx)
        return (await self._create(tx))[0]

    async def is_older(self, tx: Tx, days: int) -> bool:
        """Whether there is a current key, and it has served for so long."""
        return await data_keys.current_is_older(tx, days)

    async def current_id(self, tx: Tx) -> UUID:
        return (await self._current(tx))[0]

    @staticmethod
    def key_of(box: bytes) -> UUID:
        return UUID(bytes=box[:_ID_BYTES])

    async def _current(self, tx: Tx) -> tuple[UUID, AESGCM]:
        found = await data_keys.current(tx)
        if found is None:
            return await self._create(tx)
        key_id, sealed = found
        return key_id, self._open(key_id, sealed)

    async def _create(self, tx: Tx) -> tuple[UUID, AESGCM]:
        key_id, key = new_id(), AESGCM.generate_key(KEY_BITS)
        if await data_keys.add(tx, key_id, self._master.seal(key, _purpose(key_id))):
            return key_id, AESGCM(key)
        found = await data_keys.current(tx)
        if found is None:
            raise RuntimeError("a data key was made and retired in one moment")
        return found[0], self._open(*found)

    async def _key(self, tx: Tx, key_id: UUID) -> AESGCM:
        if key_id not in self._opened:
            sealed = await data_keys.sealed_key(tx, key_id)
            if sealed is None:
                raise ValueError(f"there is no data key {key_id}")
            return self._open(key_id, sealed)
        return self._opened[key_id]

    def _open(self, key_id: UUID, sealed: bytes) -> AESGCM:
        if key_id not in self._opened:
            self._opened[key_id] = AESGCM(self._master.unseal(sealed, _purpose(key_id)))
        return self._opened[key_id]


def _purpose(key_id: UUID) -> str:
    return f"data-key:{key_id}"
