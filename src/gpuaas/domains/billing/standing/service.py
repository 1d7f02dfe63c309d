"""The verbs of standing: on which rung an organisation is, whether it may begin something, and the pass that looks.

Other parts use:

    of(tx, org_id, currency)               its rung, since when, and when the next one follows
    refusal(tx, org_id, currency)          raises Conflict(balance_empty) if nothing new may begin
    refresh(tx, policy, org_id)            look now: after money was posted, in the same transaction, last
    at(tx, *rungs)                         who stands there: for sweeps that do not trust events

Always holds: a change of a rung and its event commit together; who comes to a rung was looked at after everybody who
changed it before; money that was posted leads back at once, whatever the pass was about to do."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.billing import StandingChanged, StandingCountdown
from gpuaas.contracts.http.standing import Rung
from gpuaas.domains.billing.standing import store
from gpuaas.domains.billing.standing.ladder import NEXT, Rules, Step, Tell, decide, runway_seconds
from gpuaas.domains.billing.standing.models import Facts, Place, Standing
from gpuaas.domains.billing.standing.states import SPENT
from gpuaas.domains.billing.standing.wording import refused
from gpuaas.domains.identity.orgs import service as orgs
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import NIL, PLATFORM, Sight, Tx
from gpuaas.kit import clock
from gpuaas.kit.errors import Conflict, Detail, Refused
from gpuaas.kit.ids import OrgId
from gpuaas.kit.money import DEFAULT_CURRENCY
from gpuaas.ports.policy import PolicyReader

BY = "system:billing.standing"
PAGE = 5_000
AT_ONCE = 200
LONGEST_PAUSE = timedelta(days=90)


async def of(tx: Tx, org_id: OrgId, currency: str = DEFAULT_CURRENCY) -> Standing:
    return await store.of(tx, Place(org_id, currency))


async def at(tx: Tx, *rungs: Rung) -> list[Place]:
    return await store.at(tx, rungs)


async def refusal(tx: Tx, org_id: OrgId, currency: str = DEFAULT_CURRENCY) -> None:
    """Refuse what would cost something, of an organisation that has nothing left."""
    found = await of(tx, org_id, currency)
    if found.rung in SPENT:
        raise Conflict(Code.BALANCE_EMPTY, refused(found.rung))


async def refresh(tx: Tx, policy: PolicyReader, org_id: OrgId) -> None:
    """Look at an organisation now. After money was posted: then a top-up stops the ladder in its own transaction."""
    await _look(tx, policy, await store.of_org(tx, org_id))


async def standings(tx: Tx, org_id: OrgId) -> list[Facts]:
    """Of each currency there is; of the usual one in any case."""
    places = await store.of_org(tx, org_id)
    usual = Place(org_id, DEFAULT_CURRENCY)
    return await store.facts(tx, places if usual in places else [usual, *places])


async def follow(db: Database, policy: PolicyReader, *, page: int = PAGE) -> int:
    """Look at everybody with something that costs, or not good. How many changed.

    What is read without a lock only says whom to look at; they are locked, looked at again, and changed."""
    after, changed = Place(OrgId(NIL), ""), 0
    while True:
        async with db.read(Sight(PLATFORM)) as tx:
            places = await store.watched(tx, after, limit=page)
            known = await store.facts(tx, places)
        due = [one.place for one in known if decide(one, rules_of(policy, one.org_id)) is not None]
        for start in range(0, len(due), AT_ONCE):
            async with db.transaction(Sight(PLATFORM), BY) as tx:
                changed += await _look(tx, policy, due[start : start + AT_ONCE])
        if len(places) < page:
            return changed
        after = places[-1]


async def pause(
    tx: Tx,
    actor: Actor,
    policy: PolicyReader,
    place: Place,
    *,
    until: datetime | None,
    reason: str,
) -> None:
    """By an operator: what counts down does not end before then. None: it counts again."""
    if until is not None and not clock.now() < until <= clock.now() + LONGEST_PAUSE:
        message = f"A pause ends in the future, at most {LONGEST_PAUSE.days} days from now."
        raise Refused(Code.STANDING_PAUSE_REFUSED, message, details=[Detail("until", "out of range")])
    await orgs.lock(tx, place.org_id)
    await store.locked_facts(tx, [place])
    await store.pause(tx, place, until=until, by=actor.email or actor.name, reason=reason)
    await _look(tx, policy, [place])


def rules_of(policy: PolicyReader, org_id: OrgId) -> Rules:
    return Rules(
        low_seconds=policy.number("billing.low_runway_hours", org_id) * 3_600,
        stop=timedelta(minutes=policy.number("billing.stop_minutes", org_id)),
        grace=timedelta(hours=policy.number("billing.grace_hours", org_id)),
    )


async def _look(tx: Tx, policy: PolicyReader, places: Sequence[Place]) -> int:
    if not places:
        return 0
    known = await store.locked_facts(tx, places)
    decided = [(one, step) for one in known if (step := decide(one, rules_of(policy, one.org_id))) is not None]
    if decided:
        await store.move(tx, decided)
    for one, step in decided:
        _tell(tx, one, step)
    return len(decided)


def _tell(tx: Tx, known: Facts, step: Step) -> None:
    if step.tell is Tell.MOVE:
        changed = StandingChanged(
            currency=known.currency,
            was=known.rung,
            rung=step.rung,
            due_at=step.due_at,
            balance_micros=known.balance_micros - known.unposted_micros,
            runway_seconds=runway_seconds(known),
        )
        tx.emit(changed, subject_id=known.org_id, org_id=known.org_id)
    elif step.tell is Tell.COUNTDOWN and step.due_at is not None:
        counted = StandingCountdown(
            currency=known.currency,
            rung=step.rung,
            next_rung=NEXT[step.rung],
            due_at=step.due_at,
            seconds_left=max(int((step.due_at - known.now).total_seconds()), 0),
        )
        tx.emit(counted, subject_id=known.org_id, org_id=known.org_id)
