"""The verbs of liveness: take heartbeats in, notice silence.

Always holds: a node is online only within its lease; a silent one is unknown, never free; each change is told once."""

import re
from collections.abc import Mapping
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.provisioning import NodeLost, NodeRecovered, NodeUnknown
from gpuaas.contracts.http.agent import Heartbeat
from gpuaas.contracts.http.nodes import Liveness
from gpuaas.domains.nodes.liveness import store
from gpuaas.domains.nodes.liveness.models import Noted
from gpuaas.domains.nodes.plausible import require_plausible
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Detail, Refused

_LOGIN = re.compile(r"^[a-z][a-z0-9_-]{0,31}\Z")


def heartbeat_check(beat: Heartbeat) -> None:
    """Refuse what no agent of ours would say."""
    require_plausible(beat.sent_at, "sent_at")
    if not all(_LOGIN.match(login) for login in beat.accounts):
        raise Refused(
            Code.REQUEST_INVALID, "accounts are the names of accounts of ours.",
            details=[Detail("accounts", "not a login")])


async def heartbeats_note(tx: Tx, beats: Mapping[UUID, Heartbeat]) -> dict[UUID, Noted]:
    """Nodes that are not in the answer are not in service."""
    for node in await store.woken(tx, beats):
        tx.emit(NodeRecovered(
            node_id=node.node_id, from_liveness=node.before, rebooted=node.rebooted), subject_id=node.node_id)
    return {row.node_id: row for row in await store.beat(tx, beats)}


async def silence_note(tx: Tx, *, lease_seconds: int, lost_seconds: int) -> tuple[list[UUID], list[UUID]]:
    """Nodes that became unknown and lost just now."""
    unknown = await store.fade(tx, frm=Liveness.ONLINE, to=Liveness.UNKNOWN, seconds=lease_seconds)
    lost = await store.fade(
        tx, frm=Liveness.UNKNOWN, to=Liveness.LOST, seconds=max(lost_seconds, lease_seconds))
    for node_id in unknown:
        tx.emit(NodeUnknown(node_id=node_id), subject_id=node_id)
    for node_id in lost:
        tx.emit(NodeLost(node_id=node_id), subject_id=node_id)
    return unknown, lost
