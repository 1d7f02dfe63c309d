"""How a policy's value is decided: tables for the rules, and properties over all layers there can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.contracts.policy_keys import Level, PolicyKey, Stricter, Value
from gpuaas.domains.policy.layers import (
    DEPTH,
    Decision,
    GuardrailBroken,
    Layer,
    changed,
    check,
    decide,
    fit,
    guardrail_above,
    parse,
    problem,
    show,
    strictness,
)
from gpuaas.domains.policy.views import explanation, policy_view

G, O, P = Level.GLOBAL, Level.ORG, Level.PROJECT  # noqa: E741 - letters keep the tables in columns
LOWER = PolicyKey(name="t.lower", default=50, minimum=1, maximum=100, stricter=Stricter.LOWER, description="")
HIGHER = PolicyKey(name="t.higher", default=50, minimum=1, maximum=100, stricter=Stricter.HIGHER, description="")
ON = PolicyKey(name="t.on", default=False, stricter=Stricter.ON, description="")
OFF = PolicyKey(name="t.off", default=True, stricter=Stricter.OFF, description="")
CHOICE = PolicyKey(name="t.choice", default="a", choices=("a", "b", "c"), stricter=Stricter.LATER, description="")
KEYS = [LOWER, HIGHER, ON, OFF, CHOICE]


def layers(*told: tuple[Level, Value] | tuple[Level, Value, bool]) -> list[Layer]:
    return [Layer(level=t[0], value=t[1], guardrail=len(t) > 2) for t in told]


@pytest.mark.parametrize(
    ("key", "told", "value", "origin", "held_by"),
    [
        (LOWER, [], 50, None, None),
        (LOWER, [(G, 40)], 40, G, None),
        (LOWER, [(G, 40), (O, 60)], 60, O, None),
        (LOWER, [(G, 40), (O, 60), (P, 70)], 70, P, None),
        (LOWER, [(G, 40), (P, 70)], 70, P, None),
        (LOWER, [(G, 40, True), (O, 30)], 30, O, None),
        (LOWER, [(G, 40, True), (O, 60)], 40, O, G),
        (LOWER, [(G, 40, True), (O, 60), (P, 70)], 40, P, G),
        (LOWER, [(G, 40, True), (O, 30, True), (P, 35)], 30, P, O),
        (LOWER, [(G, 40, True), (O, 60, True), (P, 35)], 35, P, None),
        (LOWER, [(O, 30, True), (P, 20)], 20, P, None),
        (LOWER, [(O, 30, True)], 30, O, None),
        (HIGHER, [(G, 40, True), (O, 30)], 40, O, G),
        (HIGHER, [(G, 40, True), (O, 60)], 60, O, None),
        (ON, [(G, True, True), (O, False)], True, O, G),
        (ON, [(G, False, True), (O, True), (P, False)], False, P, None),
        (OFF, [(G, False, True), (P, True)], False, P, G),
        (CHOICE, [(G, "b", True), (O, "a")], "b", O, G),
        (CHOICE, [(G, "b", True), (O, "c", True), (P, "b")], "c", P, O),
        # values a later version no longer takes: numbers move into the bounds, the rest counts as unset
        (LOWER, [(G, 400)], 100, G, None),
        (LOWER, [(G, 0, True), (O, 10)], 1, O, G),
        (CHOICE, [(G, "gone"), (O, "b")], "b", O, None),
        (CHOICE, [(G, "b"), (O, "gone", True)], "b", G, None),
        (ON, [(G, 1)], False, None, None),
    ],
)
def test_the_nearest_wins_up_to_the_guardrails_above(key, told, value, origin, held_by):
    assert decide(key, layers(*told)) == Decision(value=value, origin=origin, held_by=held_by)


@pytest.mark.parametrize(
    ("told", "level", "value", "refuser"),
    [
        ([(G, 40, True)], O, 41, G),
        ([(G, 40, True)], O, 40, None),
        ([(G, 40, True)], P, 41, G),
        ([(G, 40)], O, 99, None),
        ([(G, 40, True), (O, 20, True)], P, 30, O),
        ([(G, 40, True), (O, 60, True)], P, 50, G),
        ([(G, 40, True)], G, 99, None),
        ([(O, 20, True)], O, 99, None),
        ([(P, 5, True)], O, 99, None),
    ],
)
def test_a_value_weaker_than_a_guardrail_above_is_refused(told, level, value, refuser):
    guardrail = refused_by(LOWER, layers(*told), Layer(level=level, value=value))
    assert (guardrail.level if guardrail else None) is refuser


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (LOWER, 1, ""),
        (LOWER, 100, ""),
        (LOWER, 0, "must be from 1 to 100"),
        (LOWER, 101, "must be from 1 to 100"),
        (LOWER, 2**200, "must be from 1 to 100"),
        (LOWER, True, "must be a whole number"),
        (LOWER, "7", "must be a whole number"),
        (ON, True, ""),
        (ON, 1, "must be true or false"),
        (ON, "true", "must be true or false"),
        (CHOICE, "a", ""),
        (CHOICE, "A", "must be one of a, b, c"),
        (CHOICE, 0, "must be one of a, b, c"),
    ],
)
def test_a_value_fits_its_type_and_bounds(key, value, said):
    assert problem(key, value) == said


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        (LOWER, "7", 7),
        (LOWER, "-7", None),
        (LOWER, "7.0", None),
        (LOWER, " 7", None),
        (LOWER, "٧", None),
        (LOWER, "9" * 100, None),
        (LOWER, "", None),
        (LOWER, "true", None),
        (ON, "true", True),
        (ON, "false", False),
        (ON, "True", None),
        (ON, "1", None),
        (CHOICE, "b", "b"),
        (CHOICE, "", None),
    ],
)
def test_a_value_in_a_query_is_read_by_its_keys_type(key, text, value):
    assert parse(key, text) == value
    if value is not None:
        assert show(value) == text


def values(key: PolicyKey) -> st.SearchStrategy[Value]:
    """Such as are stored, and some that no longer fit."""
    if key.kind is bool:
        return st.one_of(st.booleans(), st.just(3))
    if key.kind is str:
        return st.sampled_from([*key.choices, "gone"])
    return st.integers(-50, 150)


@st.composite
def situations(draw: st.DrawFn) -> tuple[PolicyKey, list[Layer]]:
    key = draw(st.sampled_from(KEYS))
    levels = draw(st.lists(st.sampled_from(list(Level)), unique=True, max_size=3))
    return key, [Layer(level=lv, value=draw(values(key)), guardrail=draw(st.booleans())) for lv in levels]


@given(situations())
def test_the_value_is_never_weaker_than_any_guardrail_above(situation):
    key, told = situation
    decision = decide(key, told)
    assert problem(key, decision.value) == ""
    for layer in told:
        value = fit(key, layer.value)
        if layer.guardrail and value is not None:
            assert strictness(key, decision.value) >= strictness(key, value)


@given(situations())
def test_without_overrides_the_default_is_back(situation):
    key, told = situation
    for layer in list(told):
        told = changed(told, layer.level, None)
    assert decide(key, told) == Decision(value=key.default)


@given(situations())
def test_the_order_in_which_layers_are_found_does_not_matter(situation):
    key, told = situation
    assert decide(key, told) == decide(key, list(reversed(told)))


def refused_by(key: PolicyKey, told: list[Layer], wanted: Layer) -> Layer | None:
    try:
        check(key, told, wanted)
    except GuardrailBroken as broken:
        return broken.guardrail
    return None


@given(situations(), st.sampled_from(list(Level)), st.data())
def test_what_the_check_lets_through_holds_as_it_was_set(situation, level, data):
    key, told = situation
    value = data.draw(values(key).filter(lambda v: problem(key, v) == ""))
    wanted = Layer(level=level, value=value)
    guardrail = refused_by(key, told, wanted)
    if guardrail is not None:
        assert strictness(key, value) < strictness(key, guardrail.value)
    else:
        above = [layer for layer in changed(told, level, wanted) if DEPTH[layer.level] <= DEPTH[level]]
        assert decide(key, above) == Decision(value=value, origin=level)


@given(situations())
def test_an_explanation_shows_every_level_and_exactly_one_that_decides(situation):
    key, told = situation
    found = explanation(key, told, Level.PROJECT, names_staff=True)
    assert [layer.level for layer in found.layers] == ["default", "global", "org", "project"]
    deciding = [layer for layer in found.layers if layer.decides]
    assert len(deciding) == 1
    assert found.value == policy_view(key, told, Level.PROJECT).value
    assert fit(key, deciding[0].value if deciding[0].value is not None else key.default) == found.value
    assert show(found.value) in found.sentence


def test_staff_is_not_named_to_tenants():
    told = [
        Layer(level=G, value=5, set_from=G, set_by="root@example.com"),
        Layer(level=O, value=4, set_from=O, set_by="ada@example.com"),
    ]
    found = explanation(LOWER, told, O, names_staff=False)
    assert [layer.set_by for layer in found.layers] == ["", "platform", "ada@example.com"]


def test_a_guardrail_that_binds_is_told_beside_the_value():
    told = layers((G, 40, True), (O, 30))
    view = policy_view(LOWER, told, O)
    assert view.guardrail is not None
    assert (view.guardrail.level, view.guardrail.value) == (G, 40)
    assert guardrail_above(LOWER, told, G) is None
