"""From an operator's invitation to a node with an identity, and whom it believes."""

from urllib.parse import urlsplit
from uuid import UUID

from gpuaas.client.api import LOOPBACK
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.agent import Enrol, Enrolled, TaskKeyView, TrustView
from gpuaas.contracts.http.nodes import NodeCreated
from gpuaas.domains.nodes.fleet.service import gpu_counts
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.domains.nodes.registry.views import node_view
from gpuaas.domains.nodes.tasks import service as tasks
from gpuaas.domains.pki import service as pki
from gpuaas.domains.pki.site import Pki
from gpuaas.domains.pki.views import certificate_view
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Unavailable


async def node_invite(tx: Tx, node_id: UUID, *, seconds: int, lease: int, public_url: str) -> NodeCreated:
    """The node, and the command by which one machine becomes it."""
    token = await pki.bootstrap_token_create(tx, node_id, seconds=seconds)
    node = await registry.node_get(tx, node_id, lease=lease)
    return NodeCreated(
        id=node.id,
        node=node_view(node, (await gpu_counts(tx, [node]))[node.id]),
        token=token.token,
        expires_at=token.expires_at,
        command=f"gpuaas agent enrol --url {public_url} --token {token.token}{_allowing(public_url)}",
    )


def _allowing(public_url: str) -> str:
    """An agent sends its token in the clear to another machine only if it is told to; where the operator has chosen
    an address without TLS, the command says so."""
    parts = urlsplit(public_url)
    return " --plain-http" if parts.scheme == "http" and parts.hostname not in LOOPBACK else ""


async def node_enrol(tx: Tx, site: Pki, wanted: Enrol, *, seconds: int) -> Enrolled:
    """The token says which node it is; everything it had before ends with this."""
    await tx.enter_platform()
    node_id, issued = await pki.enrol(tx, site, wanted.token, wanted.csr, seconds=seconds)
    if not (await tasks.trust(tx))[0]:
        # An agent takes its first task key by enrolment alone: without one it would follow nobody, for ever. Said to
        # who has a good token only; with it goes all that was done, the use of the token included.
        raise Unavailable(
            Code.DEPENDENCY_UNAVAILABLE,
            "No worker has announced the key that signs tasks yet. Try again; the token stays good.",
            retry_after=2,
        )
    node = await registry.node_enrolled(tx, node_id, wanted.agent_version)
    return Enrolled(
        node_id=node_id,
        name=node.name,
        agent_url=site.agent_url,
        certificate=certificate_view(issued),
        trust=await trust_view(tx),
    )


async def trust_view(tx: Tx) -> TrustView:
    """Whom an agent believes: our authorities, and the keys tasks are signed with."""
    keys, statements = await tasks.trust(tx)
    return TrustView(
        authorities=await pki.trust(tx),
        key_statements=statements,
        task_keys=[TaskKeyView(key_id=key.key_id, public_key=key.public_key) for key in keys],
    )
