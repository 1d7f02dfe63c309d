"""From an operator's invitation to a node with an identity."""

from uuid import UUID

from gpuaas.contracts.http.agent import Enrol, Enrolled, TaskKeyView, TrustView
from gpuaas.contracts.http.nodes import NodeCreated
from gpuaas.domains.nodes.registry import service
from gpuaas.domains.nodes.registry.models import Addresses
from gpuaas.domains.nodes.registry.views import node_view
from gpuaas.domains.nodes.tasks import service as tasks
from gpuaas.domains.pki import service as pki
from gpuaas.domains.pki.site import Pki
from gpuaas.domains.pki.views import certificate_view
from gpuaas.infra.http.context import PlatformContext, PublicContext
from gpuaas.infra.postgres.tx import Tx


async def invite(cx: PlatformContext, node_id: UUID) -> NodeCreated:
    """The node, and the command by which one machine becomes it."""
    token = await pki.bootstrap_token_create(
        cx.tx, node_id, seconds=cx.policy.number("pki.bootstrap_token_seconds"))
    node = await service.node_get(cx.tx, node_id, lease=cx.policy.number("nodes.lease_seconds"))
    url = cx.parts.get(Addresses).public_url
    return NodeCreated(
        id=node.id, node=node_view(node), token=token.token, expires_at=token.expires_at,
        command=f"gpuaas agent enrol --url {url} --token {token.token}")


async def enrol(cx: PublicContext, wanted: Enrol) -> Enrolled:
    """The token says which node it is; everything it had before ends with this."""
    site = cx.parts.get(Pki)
    await cx.tx.enter_platform()
    node_id, issued = await pki.enrol(
        cx.tx, site, wanted.token, wanted.csr, seconds=cx.policy.number("pki.node_certificate_seconds"))
    node = await service.node_enrolled(cx.tx, node_id, wanted.agent_version)
    cx.subject_id = node_id
    return Enrolled(
        node_id=node_id, name=node.name, agent_url=site.agent_url, certificate=certificate_view(issued),
        trust=await trust_view(cx.tx))


async def trust_view(tx: Tx) -> TrustView:
    """Whom an agent believes: our authorities, and the keys tasks are signed with."""
    keys, statements = await tasks.trust(tx)
    return TrustView(
        authorities=await pki.trust(tx), key_statements=statements,
        task_keys=[TaskKeyView(key_id=key.key_id, public_key=key.public_key) for key in keys])
