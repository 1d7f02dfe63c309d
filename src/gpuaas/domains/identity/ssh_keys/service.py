"""The verbs of SSH public keys. Always holds: what is stored was parsed and written anew; a user has each key once."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.ssh_keys import SshKeyAdd
from gpuaas.domains.identity.ssh_keys import store
from gpuaas.domains.identity.ssh_keys.models import SshKey
from gpuaas.domains.identity.ssh_keys.public_key import parse
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import SshKeyId, UserId, new_id

list_of_user = store.list_of_user
ssh_key_delete = store.delete


async def ssh_key_add(tx: Tx, user_id: UserId, wanted: SshKeyAdd, *, max_keys: int) -> SshKey:
    key = parse(wanted.public_key)
    if await store.count_locked(tx, user_id) >= max_keys:
        raise Conflict(Code.SSH_KEY_LIMIT, f"You have {max_keys} SSH keys, as many as allowed. Delete one first.")
    name = wanted.name or key.comment or key.fingerprint
    line = f"{key.line} {key.comment}".rstrip()
    return await store.insert(
        tx,
        SshKeyId(new_id()),
        user_id,
        name=name,
        algorithm=key.algorithm,
        public_key=line,
        fingerprint=key.fingerprint,
    )
