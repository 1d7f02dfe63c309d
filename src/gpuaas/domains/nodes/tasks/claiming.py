"""A claim: looks, waits outside of any transaction, and takes what has come in a short one."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.agent import Claim, Claimed
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.domains.nodes.tasks import service
from gpuaas.domains.nodes.tasks.models import Peek
from gpuaas.domains.nodes.tasks.waiting import TaskWaiters
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit import clock
from gpuaas.kit.errors import Conflict, Missing

ROLLED_BACK = "agent_state_rolled_back"
_EVERYTHING = Sight(PLATFORM)


async def claim_wait(db: Database, waiters: TaskWaiters, node_id: UUID, wanted: Claim) -> Claimed:
    until = clock.monotonic() + wanted.wait_seconds
    waiter = waiters.enter(node_id)
    try:
        while True:
            found = await _peek(db, node_id, wanted.next_sequence)
            if found.waiting or found.cancels:
                claimed = await _take(db, node_id, wanted.next_sequence)
                if claimed.envelopes or claimed.cancelled:
                    return claimed
            remaining = until - clock.monotonic()
            if remaining <= 0 or waiter.displaced:
                return Claimed(envelopes=[], cancelled=[])
            await waiter.wait(remaining)
    finally:
        waiters.leave(node_id, waiter)


async def _peek(db: Database, node_id: UUID, next_sequence: int) -> Peek:
    async with db.read(_EVERYTHING) as tx:
        found = await service.peek(tx, node_id, next_sequence)
    if found is None:
        raise Missing(Code.NODE_MISSING, "There is no such node.")
    if next_sequence <= found.accepted:
        detail = f"the agent asks from {next_sequence} on, and has reported on {found.accepted} before"
        async with db.transaction(_EVERYTHING, f"node:{node_id}") as tx:
            await registry.node_quarantine(tx, node_id, ROLLED_BACK, detail)
        raise Conflict(
            Code.AGENT_STATE_ROLLED_BACK, "The agent has lost its memory. Its node has to be enrolled again.")
    return found


async def _take(db: Database, node_id: UUID, next_sequence: int) -> Claimed:
    async with db.transaction(_EVERYTHING, f"node:{node_id}") as tx:
        envelopes, cancelled = await service.claim(tx, node_id, next_sequence)
    return Claimed(envelopes=envelopes, cancelled=cancelled)
