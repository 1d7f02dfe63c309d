"""What an agent comes to trust: only what a chain from what it trusted leads to."""

from gpuaas.contracts.http.agent import TrustView
from gpuaas.processes.agent.trust import Trust, first_trust, follow
from tests.support.agent_plane import Authority, TaskKey

ROOT, FIRST, SECOND, THIRD = Authority("root"), TaskKey("one"), TaskKey("two"), TaskKey("three")


def trusted() -> Trust:
    return first_trust(TrustView(authorities=[ROOT.pem], task_keys=[FIRST.view]))


def view(keys: list[TaskKey], statements: list[str], authorities: list[str] | None = None) -> TrustView:
    return TrustView(
        authorities=authorities or [ROOT.pem], task_keys=[key.view for key in keys], key_statements=statements
    )


def test_a_key_that_is_only_served_is_not_trusted() -> None:
    assert set(follow(trusted(), view([FIRST, SECOND], []), []).task_keys) == {"one"}
    assert set(follow(trusted(), view([SECOND], [SECOND.names(SECOND)]), []).task_keys) == {"one"}


def test_a_key_named_by_a_trusted_one_is_followed_in_any_order() -> None:
    statements = [SECOND.names(THIRD), FIRST.names(SECOND)]
    assert set(follow(trusted(), view([SECOND, THIRD], statements), []).task_keys) == {"two", "three"}
    assert set(follow(trusted(), view([THIRD], statements), []).task_keys) == {"three"}


def test_a_statement_with_a_changed_byte_leads_nowhere() -> None:
    statement = FIRST.names(SECOND)
    for place in range(len(statement)):
        changed = statement[:place] + chr(ord(statement[place]) ^ 1) + statement[place + 1 :]
        assert set(follow(trusted(), view([FIRST, SECOND], [changed]), []).task_keys) == {"one"}


def test_a_known_key_id_keeps_its_key() -> None:
    impostor = TaskKey("one")
    followed = follow(trusted(), view([impostor], [FIRST.names(impostor)]), [])
    assert followed.task_keys["one"] == FIRST.key.public_key()


def test_an_authority_is_followed_only_when_a_trusted_one_certified_its_key() -> None:
    newer, stranger = Authority("newer"), Authority("stranger")
    both = view([FIRST], [], [newer.pem, stranger.pem, ROOT.pem])
    assert follow(trusted(), both, []).authorities == [ROOT.pem]
    assert follow(trusted(), both, [newer.certify(ROOT)]).authorities == [newer.pem, ROOT.pem]
    assert follow(trusted(), both, [newer.certify(stranger)]).authorities == [ROOT.pem]


def test_the_last_authority_and_the_last_key_are_never_dropped() -> None:
    stranger = Authority("stranger")
    followed = follow(trusted(), view([THIRD], [], [stranger.pem]), [])
    assert (followed.authorities, set(followed.task_keys)) == ([ROOT.pem], {"one"})
