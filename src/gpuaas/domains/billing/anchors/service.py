"""The verbs of anchors.

Hashes tell when an entry in the middle was changed. They do not tell when the last ones are gone, or when all was
written anew with new hashes: for that, somebody else has to know how the ledger ended. The audit log is sealed and its
heads are signed with a key that is not in the database, and printed to the programs' logs; so it is told.

Always holds: what was posted before the last anchor cannot be taken away or written anew without a flaw here or in the
audit log. Heads of the platform's accounts are enough, for every transaction has a leg in one of them."""

import msgspec

from gpuaas.contracts.actor import ActorKind
from gpuaas.domains.audit import service as audit
from gpuaas.domains.audit.models import Wanted
from gpuaas.domains.billing.anchors import store
from gpuaas.domains.billing.anchors.models import Anchor, Flaw, Head
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.finish import AuditEntry, finish
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit import log
from gpuaas.kit.ids import new_id

ACTION = "billing.ledger_anchor"
BY = "system:billing.ledger_anchor"


async def anchor(db: Database) -> int:
    """Tell the audit log how the ledger ends now, unless it knows. How many accounts it was told of."""
    async with db.unfinished(Sight(PLATFORM), BY) as tx:
        heads = await store.heads(tx)
        known = await _newest(tx)
        fresh = heads and (known is None or known[1] != heads)
        await finish(tx, _entry(heads) if fresh else None)
    return len(heads) if fresh else 0


async def flaws(tx: Tx) -> list[Flaw]:
    """What the ledger had when it was last anchored, and has no more."""
    known = await _newest(tx)
    if known is None:
        return []
    where, heads = known
    if heads is None:
        return [Flaw(where, "what it says of the ledger cannot be read")]
    return [
        Flaw(
            f"account {row['account_id']}",
            f"the entry of transaction {row['transaction_id']} was its last one by {where}, and "
            + ("is gone" if row["gone"] else "has another hash now"),
        )
        for row in await store.lost(tx, heads)
    ]


async def _newest(tx: Tx) -> tuple[str, list[Head] | None] | None:
    """The last anchor: where it stands, and the heads it names."""
    found = await audit.audit_list(tx, Wanted(action=ACTION), before=None, limit=1)
    if not found:
        return None
    where = f"audit entry {found[0].id}"
    try:
        return where, msgspec.json.decode(found[0].details, type=Anchor).heads
    except msgspec.DecodeError:
        return where, None


def _entry(heads: list[Head]) -> AuditEntry:
    return AuditEntry(
        id=new_id(),
        action=ACTION,
        operation="ledger_anchor",
        actor_kind=ActorKind.SYSTEM,
        actor_id=None,
        actor_name=BY,
        org_id=None,
        project_id=None,
        subject_id=None,
        correlation_id=log.correlation_id.get(),
        client_ip="",
        details=msgspec.json.encode(Anchor(heads)).decode(),
    )
