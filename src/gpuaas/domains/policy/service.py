"""The verbs of policy: read, set, unset, explain, rehearse; and keeping this process's copy fresh."""

import asyncio
from uuid import UUID

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.platform import PolicyChanged
from gpuaas.contracts.http.policy import PolicySet
from gpuaas.contracts.permissions import Permission
from gpuaas.contracts.policy_keys import POLICY_KEYS, Level, PolicyKey, Value
from gpuaas.domains.policy import store
from gpuaas.domains.policy.layers import (
    DEPTH,
    Decision,
    GuardrailBroken,
    Layer,
    changed,
    check,
    decide,
    parse,
    problem,
    show,
)
from gpuaas.domains.policy.models import Change, Override, Pattern, Place, Rehearsal
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.http.access import permitted
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import NIL, PLATFORM, Sight, Tx
from gpuaas.kit import log
from gpuaas.kit.errors import Conflict, Denied, Detail, Missing, Refused
from gpuaas.kit.ids import OrgId

POLL_SECONDS = 0.5
AWAY_SECONDS = 1.0


def policy_key(name: str) -> PolicyKey:
    key = POLICY_KEYS.get(name)
    if key is None:
        raise Missing(Code.POLICY_KEY_MISSING, f"There is no policy {name}. List them to see all.")
    return key


async def policy_layers(tx: Tx, place: Place, name: str) -> list[Layer]:
    """What is set of a policy at a place and above it, outermost first."""
    await _require_place(tx, place)
    return [found.layer() for found in await store.above(tx, place, policy_key(name).name)]


async def policy_all_layers(tx: Tx, place: Place) -> dict[str, list[Layer]]:
    """The same for all policies: keys in order of their names."""
    layers: dict[str, list[Layer]] = {name: [] for name in sorted(POLICY_KEYS)}
    for found in await store.above(tx, place):
        if found.key in layers:
            layers[found.key].append(found.layer())
    return layers


async def policy_set(tx: Tx, actor: Actor, place: Place, name: str, wanted: PolicySet) -> Change:
    """Refused when weaker than a guardrail above, or when the policy is not this actor's to set here."""
    key = policy_key(name)
    await store.take_turn(tx)
    layers = await policy_layers(tx, place, name)
    authority = authority_of(actor, place)
    _require_settable(key, layers, place, authority)
    _require_allowed(key, layers, Layer(level=place.level, value=wanted.value))
    await store.put(
        tx,
        Override(
            key=name,
            place=place,
            value=wanted.value,
            guardrail=wanted.guardrail,
            set_from=authority,
            set_by_name=actor.email or actor.name,
            reason=wanted.reason,
        ),
        actor.id,
    )
    return await _told(tx, key, place, layers)


async def policy_unset(tx: Tx, actor: Actor, place: Place, name: str) -> Change:
    """What is above holds again."""
    key = policy_key(name)
    await store.take_turn(tx)
    layers = await policy_layers(tx, place, name)
    _require_settable(key, layers, place, authority_of(actor, place))
    if not await store.remove(tx, name, place):
        raise Missing(Code.POLICY_OVERRIDE_MISSING, f"{name} is not set at this level.")
    return await _told(tx, key, place, layers)


async def policy_rehearse(
    tx: Tx,
    actor: Actor,
    place: Place,
    name: str,
    *,
    value: str | None,
    guardrail: bool,
    after: list[str] | None,
    limit: int,
) -> Rehearsal:
    """Whom a change would touch, in pages; refused as the change itself would be. Nothing is written."""
    key = policy_key(name)
    layers = await policy_layers(tx, place, name)
    _require_settable(key, layers, place, min(authority_of(actor, place), place.level, key=DEPTH.__getitem__))
    to = None if value is None else Layer(level=place.level, value=_parsed(key, value), guardrail=guardrail)
    if to is not None:
        _require_allowed(key, layers, to)
    elif all(layer.level is not place.level for layer in layers):
        raise Missing(Code.POLICY_OVERRIDE_MISSING, f"{name} is not set at this level.")
    outer = [layer for layer in layers if layer.level is Level.GLOBAL]

    def fate(pattern: Pattern) -> tuple[Decision, Decision]:
        mine = [*outer, *pattern.layers()]
        return decide(key, mine), decide(key, changed(mine, place.level, to))

    found = await store.patterns(tx, name, place)
    moved = [(p, count) for p, count in found if fate(p)[0].value != fate(p)[1].value]
    position = (UUID(after[0]), UUID(after[1])) if after else None
    subjects = await store.subjects_of(tx, name, place, [p for p, _ in moved], after=position, limit=limit)
    return Rehearsal(
        before=decide(key, layers).value,
        after=decide(key, changed(layers, place.level, to)).value,
        touched_orgs=sum(count for p, count in moved if not p.is_project),
        touched_projects=sum(count for p, count in moved if p.is_project),
        items=[(subject, *fate(subject.pattern)) for subject in subjects],
        next_position=(subjects[-1].org_id, subjects[-1].project_id or NIL) if len(subjects) == limit else None,
    )


def authority_of(actor: Actor, place: Place) -> Level:
    """From how far above the actor speaks: what the platform holds, an organisation cannot let go."""
    if permitted(actor, Permission.POLICY_MANAGE):
        return Level.GLOBAL
    org_id = None if place.org_id is None else OrgId(place.org_id)
    return Level.ORG if permitted(actor, Permission.POLICY_MANAGE, org_id) else Level.PROJECT


async def policy_refresh(db: Database, policy: MemoryPolicy) -> bool:
    """Load what is set if anything changed since the last time; says whether it did."""
    async with db.read(Sight(PLATFORM)) as tx:
        if await store.revision(tx) == policy.revision:
            policy.checked()
            return False
    async with db.snapshot(Sight(PLATFORM)) as tx:
        revision, overrides = await store.revision(tx), await store.overrides(tx)
    await asyncio.to_thread(policy.load, revision, overrides)  # deciding thousands must not keep requests waiting
    policy.checked()
    return True


async def policy_follow(db: Database, policy: MemoryPolicy) -> None:
    """Keep it fresh until cancelled: by a hint at once, without one twice a second. A database that is away changes
    nothing: the last good values stay."""
    away = False
    while True:
        try:
            await policy_refresh(db, policy)
            away = False
        except Exception as error:  # noqa: BLE001 - whatever fails, the last good values stay and the next turn tries
            if not away:
                log.get_logger().warning("policy not refreshed: the last good values stay", reason=str(error))
            away = True
        try:
            async with asyncio.timeout(AWAY_SECONDS if away else POLL_SECONDS):
                await policy.hint.wait()
        except TimeoutError:
            pass
        policy.hint.clear()


async def _require_place(tx: Tx, place: Place) -> None:
    """The platform names places freely; what it names must exist."""
    if place.project_id is not None and place.org_id is None:
        raise Refused(
            Code.REQUEST_INVALID,
            "A project is named with its organisation.",
            details=[Detail("org_id", "missing beside project_id")],
        )
    if place.org_id is None:
        return
    org, project = await store.place_exists(tx, place)
    if not org:
        raise Missing(Code.ORG_MISSING, "There is no such organisation, or you are not in it.")
    if not project:
        raise Missing(Code.PROJECT_MISSING, "There is no such project, or you are not in its organisation.")


def _parsed(key: PolicyKey, text: str) -> Value:
    value = parse(key, text)
    return text if value is None else value


def _require_settable(key: PolicyKey, layers: list[Layer], place: Place, authority: Level) -> None:
    """Whether somebody speaking from this far above may change the policy at this place at all."""
    if key.platform_only and authority is not Level.GLOBAL:
        raise Denied(Code.POLICY_PLATFORM_ONLY, f"Only the platform sets {key.name}. Ask its operator.")
    if place.level not in key.levels:
        lowest = max(key.levels, key=DEPTH.__getitem__)
        raise Refused(Code.POLICY_LEVEL_REFUSED, f"{key.name} is set at level {lowest} or above.")
    own = next((layer for layer in layers if layer.level is place.level), None)
    if own is not None and own.guardrail and DEPTH[own.set_from] < DEPTH[authority]:
        raise _held(own, f"was set from level {own.set_from} and is not yours to change")


def _require_allowed(key: PolicyKey, layers: list[Layer], to: Layer) -> None:
    wrong = problem(key, to.value)
    if wrong:
        raise Refused(Code.POLICY_VALUE_REFUSED, f"{key.name} {wrong}.", details=[Detail("value", wrong)])
    try:
        check(key, layers, to)
    except GuardrailBroken as broken:
        raise _held(broken.guardrail, f"does not allow the weaker {show(to.value)}") from broken


def _held(guardrail: Layer, why: str) -> Conflict:
    sentence = f"the guardrail at level {guardrail.level} is {show(guardrail.value)} and {why}"
    return Conflict(Code.POLICY_GUARDRAIL, f"{sentence[0].upper()}{sentence[1:]}.", details=[Detail("value", sentence)])


async def _told(tx: Tx, key: PolicyKey, place: Place, before: list[Layer]) -> Change:
    """Tell of a change that was made, and what it did here."""
    tx.emit(PolicyChanged(key=key.name, org_id=place.org_id, project_id=place.project_id), org_id=place.org_id)
    layers = [found.layer() for found in await store.above(tx, place, key.name)]
    return Change(before=decide(key, before).value, layers=layers)
