"""The verbs of adjustments.

Always holds: what is above the policy's limit, alone or with what its proposer posted alone in the last day, is posted
only with the approval of somebody else; an adjustment is posted once, a transaction reversed once (what was reversed
already is refused); a balance is never adjusted below its floor."""

from datetime import timedelta
from uuid import UUID

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.billing import AdjustmentProposed, BalanceAdjusted
from gpuaas.contracts.http.billing import AccountKind, AdjustmentCreate, PostingKind
from gpuaas.domains.audit import service as audit
from gpuaas.domains.audit.models import Wanted
from gpuaas.domains.billing.adjustments import store
from gpuaas.domains.billing.adjustments.models import Adjustment, Change
from gpuaas.domains.billing.adjustments.states import S
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import Posted, Posting, between
from gpuaas.domains.billing.standing import service as standing
from gpuaas.domains.identity.orgs import service as orgs
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import clock
from gpuaas.kit.errors import Conflict, Denied, Detail, Refused
from gpuaas.kit.ids import AdjustmentId, OrgId, TransactionId, new_id
from gpuaas.ports.policy import PolicyReader

LIMIT = "billing.adjustment_four_eyes_micros"
ROLES_SET = "user.platform_roles_set"
POLICY_CHANGES = ("policy.set", "policy.unset")
MOST_CHANGES = 1_000
NEW_OPERATOR = timedelta(days=1)

adjustment_list = store.list_all
proposals_expire = store.expire


async def adjustment_create(
    tx: Tx, actor: Actor, policy: PolicyReader, org_id: OrgId, wanted: AdjustmentCreate
) -> Adjustment:
    """Change a balance, or propose to."""
    if wanted.amount_micros == 0:
        details = [Detail("amount_micros", "zero changes nothing")]
        raise Refused(Code.REQUEST_INVALID, "An adjustment changes something.", details=details)
    await orgs.lock(tx, org_id)
    change = Change(org_id=org_id, currency=wanted.currency, amount_micros=wanted.amount_micros, reason=wanted.reason)
    return await _begin(tx, actor, policy, change)


async def ledger_reverse(
    tx: Tx, actor: Actor, policy: PolicyReader, transaction_id: TransactionId, *, reason: str
) -> Adjustment:
    """Undo a transaction of an organisation, or propose to."""
    was, amount = await ledger.reversible(tx, transaction_id)
    assert was.org_id is not None  # noqa: S101 # a reversible one is an organisation's
    change = Change(
        org_id=was.org_id, currency=was.currency, amount_micros=-amount, reason=reason, reverses_id=transaction_id
    )
    return await _begin(tx, actor, policy, change)


async def _begin(tx: Tx, actor: Actor, policy: PolicyReader, change: Change) -> Adjustment:
    adjustment_id = AdjustmentId(new_id())
    by_name, by_id = _who(actor)
    limit = await alone_micros(tx, policy, by_id)
    if abs(change.amount_micros) > limit - await store.posted_alone(tx, by_id, change.currency):
        made = await store.insert(tx, adjustment_id, change, by=(by_name, by_id), transaction_id=None)
        tx.emit(
            AdjustmentProposed(adjustment_id=made.id, currency=made.currency, amount_micros=made.amount_micros),
            subject_id=made.id,
            org_id=made.org_id,
        )
        return made
    posted = await _post(tx, adjustment_id, change)
    made = await store.insert(tx, adjustment_id, change, by=(by_name, by_id), transaction_id=posted.transaction_id)
    _tell(tx, made, posted)
    await standing.refresh(tx, policy, made.org_id)
    return made


async def adjustment_approve(
    tx: Tx, actor: Actor, policy: PolicyReader, adjustment_id: AdjustmentId, *, reason: str
) -> Adjustment:
    """Post what somebody else proposed."""
    proposed = await store.get(tx, adjustment_id, lock=True)
    if proposed.state is not S.PROPOSED:
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The adjustment is {proposed.state} already.")
    if proposed.proposed_by_id == actor.id:
        raise Denied(Code.ADJUSTMENT_OWN, "Somebody else has to approve what you proposed.")
    for user_id in (_who(actor)[1], proposed.proposed_by_id):
        await require_settled(tx, user_id)
    change = Change(
        org_id=proposed.org_id,
        currency=proposed.currency,
        amount_micros=proposed.amount_micros,
        reason=proposed.reason,
        reverses_id=proposed.reverses_id,
    )
    posted = await _post(tx, adjustment_id, change)
    made = await store.move(
        tx, adjustment_id, to=S.POSTED, by=_who(actor), decision=reason, transaction_id=posted.transaction_id
    )
    _tell(tx, made, posted)
    await standing.refresh(tx, policy, made.org_id)
    return made


async def alone_micros(tx: Tx, policy: PolicyReader, user_id: UUID) -> int:
    """How much an operator may move alone; whoever changed that within a day, nothing."""
    return 0 if await _moved_the_limit(tx, user_id) else policy.number(LIMIT)


async def _moved_the_limit(tx: Tx, user_id: UUID) -> bool:
    """Whether he changed, within a day, how much he may do alone; so many changes that nobody can tell count as one."""
    since = clock.now() - NEW_OPERATOR
    for action in POLICY_CHANGES:
        wanted = Wanted(actor_id=user_id, action=action, from_at=since)
        found = await audit.audit_list(tx, wanted, before=None, limit=MOST_CHANGES)
        if len(found) == MOST_CHANGES or any(LIMIT in entry.details for entry in found):
            return True
    return False


async def require_settled(tx: Tx, user_id: UUID) -> None:
    """An account that was made an operator's just now may be the same person's second one."""
    wanted = Wanted(action=ROLES_SET, subject_id=user_id, from_at=clock.now() - NEW_OPERATOR)
    if await audit.audit_list(tx, wanted, before=None, limit=1):
        message = "Somebody whose platform roles changed within a day is not a second pair of eyes yet."
        raise Denied(Code.ADJUSTMENT_OWN, message)


async def adjustment_reject(tx: Tx, actor: Actor, adjustment_id: AdjustmentId, *, reason: str) -> Adjustment:
    """Decide, with a reason, that it is not posted. Who proposed it may take it back so."""
    await store.get(tx, adjustment_id)
    return await store.move(tx, adjustment_id, to=S.REJECTED, by=_who(actor), decision=reason)


async def _post(tx: Tx, adjustment_id: AdjustmentId, change: Change) -> Posted:
    if change.reverses_id is not None:
        undone = await ledger.reverse(tx, change.reverses_id, reason=change.reason)
        if undone.replayed:  # by a program: nothing moves now, so nobody is told that it did
            raise Conflict(Code.LEDGER_REVERSED_ALREADY, "The transaction was reversed already.")
        return undone
    return await ledger.post(
        tx,
        Posting(
            kind=PostingKind.ADJUSTMENT,
            key=str(adjustment_id),
            org_id=change.org_id,
            legs=between(change.amount_micros, AccountKind.ADJUSTMENTS),
            currency=change.currency,
            subject_id=adjustment_id,
            reason=change.reason,
        ),
    )


def _tell(tx: Tx, made: Adjustment, posted: Posted) -> None:
    tx.emit(
        BalanceAdjusted(
            adjustment_id=made.id,
            transaction_id=posted.transaction_id,
            currency=made.currency,
            amount_micros=made.amount_micros,
            balance_micros=posted.balance_micros or 0,
        ),
        subject_id=made.id,
        org_id=made.org_id,
    )


def _who(actor: Actor) -> tuple[str, UUID]:
    assert actor.id is not None  # noqa: S101 # the pipeline admits only actors with an id here
    return actor.email or actor.name, actor.id
