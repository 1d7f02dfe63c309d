"""The policy in memory: lookups by place, and what it does with what it does not know."""

import timeit
from pathlib import Path

import pytest

import gpuaas
from gpuaas.contracts.policy_keys import POLICY_KEYS, Level, PolicyKey, Stricter
from gpuaas.domains.policy.layers import decide, problem
from gpuaas.domains.policy.models import Override, Place
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.http.operation import Lane
from gpuaas.kit.ids import new_id

DAYS = "identity.invitation_days"
ORG, OTHER, PROJECT = new_id(), new_id(), new_id()


def loaded(*overrides: Override) -> MemoryPolicy:
    policy = MemoryPolicy()
    policy.load(1, overrides)
    return policy


@pytest.mark.parametrize("key", POLICY_KEYS.values(), ids=lambda key: key.name)
def test_every_key_is_well_defined_and_read_as_its_type(key: PolicyKey):
    assert problem(key, key.default) == ""
    assert key.description.endswith(".")
    assert Level.GLOBAL in key.levels
    policy = MemoryPolicy()
    readers = {int: policy.number, bool: policy.flag, str: policy.text}
    assert readers.pop(key.kind)(key.name) == key.default
    for reader in readers.values():
        with pytest.raises(TypeError):
            reader(key.name)
    right = {int: {Stricter.LOWER, Stricter.HIGHER}, bool: {Stricter.ON, Stricter.OFF}, str: {Stricter.LATER}}
    assert key.stricter in right[key.kind]


def test_a_project_follows_its_organisation_and_that_the_platform():
    policy = loaded(
        Override(key=DAYS, place=Place(), value=10),
        Override(key=DAYS, place=Place(ORG), value=20),
        Override(key=DAYS, place=Place(ORG, PROJECT), value=30),
    )
    assert policy.number(DAYS) == 10
    assert policy.number(DAYS, OTHER) == 10
    assert policy.number(DAYS, ORG) == 20
    assert policy.number(DAYS, ORG, new_id()) == 20
    assert policy.number(DAYS, ORG, PROJECT) == 30


def test_a_guardrail_that_came_later_holds_what_was_weaker():
    policy = loaded(
        Override(key=DAYS, place=Place(), value=5, guardrail=True),
        Override(key=DAYS, place=Place(ORG), value=20),
        Override(key=DAYS, place=Place(ORG, PROJECT), value=3),
    )
    assert (policy.number(DAYS, ORG), policy.number(DAYS, ORG, PROJECT)) == (5, 3)


def test_overrides_of_unknown_keys_are_left_alone():
    policy = loaded(Override(key="of.a_newer_version", place=Place(), value=1))
    assert policy.number(DAYS) == POLICY_KEYS[DAYS].default


def test_an_unknown_key_or_a_project_without_its_organisation_is_a_mistake_of_ours():
    policy = MemoryPolicy()
    with pytest.raises(KeyError):
        policy.number("no.such_key")
    with pytest.raises(ValueError, match="organisation"):
        policy.number(DAYS, None, PROJECT)


def test_values_are_of_one_revision():
    policy = MemoryPolicy()
    assert not policy.loaded
    policy.load(7, [Override(key=DAYS, place=Place(ORG), value=20)])
    policy.load(8, [])
    assert (policy.loaded, policy.revision, policy.number(DAYS, ORG)) == (True, 8, POLICY_KEYS[DAYS].default)


def test_reading_costs_a_lookup_however_much_is_set():
    policy = loaded(*(Override(key=DAYS, place=Place(new_id()), value=9) for _ in range(20_000)))
    seconds = min(timeit.repeat(lambda: policy.number(DAYS, ORG, PROJECT), number=10_000, repeat=5))
    deciding = min(timeit.repeat(lambda: decide(POLICY_KEYS[DAYS], ()), number=10_000, repeat=5))
    assert seconds < max(3 * deciding, 0.05), f"{seconds * 100:.2f} µs a read"


def test_every_key_is_read_somewhere():
    """A threshold nobody asks for would only look as if it could be set."""
    source = Path(gpuaas.__file__).parent
    text = "".join(path.read_text() for path in source.rglob("*.py") if path.name != "policy_keys.py")
    lanes = {f"rate_limit.{lane}_{what}" for lane in Lane for what in ("per_minute", "burst")}
    assert {key for key in POLICY_KEYS if key not in text} == lanes
