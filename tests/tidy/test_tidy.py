"""The shape of the repository: every rule holds everywhere, and every rule can fail."""

import pytest

from tests.tidy import boundaries, measures, repository
from tests.tidy.allowed import ALLOWED, CEILING
from tests.tidy.rule import RULES, Repo, Rule, read_repository

MODULES = (measures, boundaries, repository)


@pytest.fixture(scope="module")
def the_repository() -> Repo:
    return read_repository()


def by_name(rule: Rule) -> str:
    return rule.name


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_the_repository_keeps_every_rule(rule: Rule, the_repository: Repo) -> None:
    allowed = ALLOWED.get(rule.name, frozenset())
    broken = [str(finding) for finding in rule.findings(the_repository) if finding.key not in allowed]
    if broken:
        pytest.fail("\n".join([f"{rule.sentence}:", *broken]), pytrace=False)


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_every_rule_refuses_its_bad_examples(rule: Rule) -> None:
    for example in rule.bad:
        assert rule.findings(Repo(example)), f"{rule.name} lets this pass: {example}"


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_every_rule_lets_its_good_examples_pass(rule: Rule) -> None:
    for example in rule.good:
        assert not rule.findings(Repo(example)), f"{rule.name} refuses this: {example}"


def test_rules_come_from_every_module_of_rules() -> None:
    assert {rule.check.__module__ for rule in RULES} == {module.__name__ for module in MODULES}


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_an_exception_that_is_no_longer_needed_is_deleted(rule: Rule, the_repository: Repo) -> None:
    needed = {finding.key for finding in rule.findings(the_repository)}
    assert ALLOWED.get(rule.name, frozenset()) <= needed


def test_lists_of_exceptions_only_shrink() -> None:
    assert set(ALLOWED) <= {rule.name for rule in RULES}
    assert sum(len(keys) for keys in ALLOWED.values()) == CEILING
