"""Operations on one's SSH public keys."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Done, Page, PageQuery
from gpuaas.contracts.http.ssh_keys import SshKeyAdd, SshKeyView
from gpuaas.contracts.permissions import P
from gpuaas.domains.identity.ssh_keys import service
from gpuaas.domains.identity.ssh_keys.models import SshKey
from gpuaas.infra.http.context import UserContext
from gpuaas.infra.http.listing import after, page
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import SshKeyId, UserId


def view(key: SshKey) -> SshKeyView:
    return SshKeyView(
        id=key.id,
        name=key.name,
        algorithm=key.algorithm,
        public_key=key.public_key,
        fingerprint=key.fingerprint,
        created_at=key.created_at,
    )


@operation("GET", "/users/me/ssh-keys", permission=P.SELF, lane=Lane.DEFAULT, tag="ssh_keys")
async def ssh_key_list(cx: UserContext, query: PageQuery) -> Page[SshKeyView]:
    """List your SSH public keys."""
    rows = await service.list_of_user(cx.tx, UserId(cx.user_id), after=after(cx, query), limit=query.limit + 1)
    return page(cx, query, rows, view)


@operation(
    "POST",
    "/users/me/ssh-keys",
    permission=P.SELF,
    lane=Lane.DEFAULT,
    audit="ssh_key.add",
    status=201,
    tag="ssh_keys",
    errors=(Code.SSH_KEY_INVALID, Code.SSH_KEY_EXISTS, Code.SSH_KEY_LIMIT),
)
async def ssh_key_add(cx: UserContext, wanted: SshKeyAdd) -> SshKeyView:
    """Add an SSH public key.

    Taken are Ed25519, ECDSA, RSA of 3072 bits or more, and keys in security tokens; one line, without options."""
    max_keys = cx.policy.number("identity.ssh_keys_max")
    return view(await service.ssh_key_add(cx.tx, UserId(cx.user_id), wanted, max_keys=max_keys))


@operation(
    "DELETE",
    "/users/me/ssh-keys/{ssh_key_id}",
    permission=P.SELF,
    lane=Lane.DEFAULT,
    audit="ssh_key.delete",
    tag="ssh_keys",
    errors=(Code.SSH_KEY_MISSING,),
)
async def ssh_key_delete(cx: UserContext, ssh_key_id: SshKeyId) -> Done:
    """Delete one of your SSH public keys."""
    await service.ssh_key_delete(cx.tx, UserId(cx.user_id), ssh_key_id)
    return Done()
