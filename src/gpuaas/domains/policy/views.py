"""How policy is told: definitions, effective values, explanations and rehearsals as they leave."""

from gpuaas.contracts.http.policy import (
    Guardrail,
    Origin,
    PolicyExplanation,
    PolicyKeyView,
    PolicyKind,
    PolicyLayerView,
    PolicyRehearsal,
    PolicyView,
    Touched,
)
from gpuaas.contracts.policy_keys import Level, PolicyKey
from gpuaas.domains.policy.layers import DEPTH, Decision, Layer, decide, fit, guardrail_above, show, strictness
from gpuaas.domains.policy.models import Rehearsal

_KINDS = {int: PolicyKind.NUMBER, bool: PolicyKind.FLAG, str: PolicyKind.CHOICE}
STAFF = "platform"


def key_view(key: PolicyKey) -> PolicyKeyView:
    number = key.kind is int
    return PolicyKeyView(
        name=key.name,
        kind=_KINDS[key.kind],
        description=key.description,
        default=key.default,
        unit=key.unit,
        minimum=key.minimum if number else None,
        maximum=key.maximum if number else None,
        choices=list(key.choices),
        stricter=key.stricter,
        levels=sorted(key.levels, key=DEPTH.__getitem__),
        platform_only=key.platform_only,
    )


def policy_view(key: PolicyKey, layers: list[Layer], level: Level) -> PolicyView:
    decision = decide(key, layers)
    above = guardrail_above(key, layers, level)
    return PolicyView(
        name=key.name,
        value=decision.value,
        unit=key.unit,
        origin=_origin(decision),
        held_by=decision.held_by,
        guardrail=Guardrail(level=above.level, value=above.value) if above else None,
    )


def explanation(key: PolicyKey, layers: list[Layer], level: Level, *, names_staff: bool) -> PolicyExplanation:
    """All levels down to this one. Who of the platform's staff set something is told to the platform only."""
    decision = decide(key, layers)
    decides = decision.held_by or decision.origin
    by_level = {layer.level: layer for layer in layers}
    told = [PolicyLayerView(level=Origin.DEFAULT, value=key.default, decides=decides is None)]
    for at in sorted((known for known in Level if DEPTH[known] <= DEPTH[level]), key=DEPTH.__getitem__):
        layer = by_level.get(at)
        if layer is None:
            told.append(PolicyLayerView(level=Origin(at), value=None))
            continue
        told.append(
            PolicyLayerView(
                level=Origin(at),
                value=layer.value,
                guardrail=layer.guardrail,
                decides=decides is at,
                too_weak=_too_weak(key, layers, layer),
                set_at=layer.set_at,
                reason=layer.reason,
                set_by=layer.set_by if names_staff or layer.set_from is not Level.GLOBAL else STAFF,
            )
        )
    return PolicyExplanation(
        name=key.name,
        value=decision.value,
        unit=key.unit,
        origin=_origin(decision),
        held_by=decision.held_by,
        sentence=_sentence(key, by_level, decision),
        layers=told,
    )


def rehearsal_view(key: PolicyKey, found: Rehearsal, next_cursor: str | None) -> PolicyRehearsal:
    return PolicyRehearsal(
        name=key.name,
        before=found.before,
        after=found.after,
        touched_orgs=found.touched_orgs,
        touched_projects=found.touched_projects,
        next_cursor=next_cursor,
        items=[
            Touched(
                org_id=subject.org_id,
                org_name=subject.org_name,
                project_id=subject.project_id,
                project_name=subject.project_name,
                before=before.value,
                after=after.value,
                held_by=after.held_by,
            )
            for subject, before, after in found.items
        ],
    )


def _origin(decision: Decision) -> Origin:
    return Origin(decision.origin) if decision.origin else Origin.DEFAULT


def _too_weak(key: PolicyKey, layers: list[Layer], layer: Layer) -> bool:
    above, value = guardrail_above(key, layers, layer.level), fit(key, layer.value)
    return above is not None and value is not None and strictness(key, value) < strictness(key, above.value)


def _sentence(key: PolicyKey, by_level: dict[Level, Layer], decision: Decision) -> str:
    value = f"{show(decision.value)} {key.unit}".rstrip()
    if decision.origin is None:
        return f"{key.name} is {value}: the default, nothing is set."
    if decision.held_by is not None:
        wanted = show(by_level[decision.origin].value)
        return (
            f"{key.name} is {value}: level {decision.origin} sets {wanted}, but the guardrail at level "
            f"{decision.held_by} holds it at {show(decision.value)}."
        )
    guardrail = ", as a guardrail" if by_level[decision.origin].guardrail else ""
    return f"{key.name} is {value}: set at level {decision.origin}{guardrail}, the nearest that sets it."
