"""The audit chain's bytes: pinned, so that what was sealed years ago still verifies; and unambiguous."""

import hashlib
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.domains.audit.chain import (
    FIELDS,
    GENESIS,
    Link,
    SealedRow,
    Walk,
    checkpoint_bytes,
    link_hash,
    links,
    row_bytes,
)

ROW = SealedRow(
    id=UUID("01890000-0000-7000-8000-000000000001"),
    at=datetime(2025, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    action="project.create",
    operation="project_create",
    actor_kind="user",
    actor_id=UUID("01890000-0000-7000-8000-000000000002"),
    actor_name="ada@example.com",
    org_id=UUID("01890000-0000-7000-8000-000000000003"),
    project_id=None,
    subject_id=None,
    correlation_id="c0ffee00",
    client_ip="192.0.2.1",
    details='{"name": "größe"}',
)


def test_the_bytes_are_pinned():
    """Changing these means a new version, not new figures here."""
    assert GENESIS.hex() == hashlib.sha256(b"gpuaas.audit.genesis").hexdigest()
    assert row_bytes(ROW)[:36].hex() == "00000010" + ROW.id.hex + "00000008" + "00062ab06a436f35" + "0000000e"
    assert link_hash(1, GENESIS, ROW).hex() == "34b87a629727b5e3168b76fc76eb8055a1195d010323b8b2cfbb344b2a22d117"
    signed = hashlib.sha256(checkpoint_bytes(1, GENESIS, ROW.at)).hexdigest()
    assert signed == "d678f2fa60a02a0426a99957e725de221f1287e8e6ab6b6d91f4097c2e65e701"


def test_an_instant_is_the_same_in_any_zone():
    moved = msgspec.structs.replace(ROW, at=ROW.at.astimezone(timezone(timedelta(hours=5, minutes=45))))
    assert row_bytes(moved) == row_bytes(ROW)


texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8)
ids = st.uuids() | st.none()
rows = st.builds(
    SealedRow,
    id=st.uuids(),
    at=st.datetimes(timezones=st.just(UTC)),
    action=texts,
    operation=texts,
    actor_kind=texts,
    actor_id=ids,
    actor_name=texts,
    org_id=ids,
    project_id=ids,
    subject_id=ids,
    correlation_id=texts,
    client_ip=texts,
    details=texts,
)


@given(rows, rows)
def test_different_rows_have_different_bytes(one, other):
    assert (row_bytes(one) == row_bytes(other)) == (one == other)


@given(texts, texts, st.integers(0, 8))
def test_text_cannot_move_from_one_column_into_the_next(action, operation, cut):
    """Length prefixes: joining and cutting elsewhere is another row."""
    joined = action + operation
    one = msgspec.structs.replace(ROW, action=action, operation=operation)
    other = msgspec.structs.replace(ROW, action=joined[:cut], operation=joined[cut:])
    assert (row_bytes(one) == row_bytes(other)) == (one == other)


def chain_of(count: int) -> tuple[list[SealedRow], list[Link]]:
    made = [msgspec.structs.replace(ROW, id=UUID(int=n)) for n in range(1, count + 1)]
    return made, links(made, after_seq=0, after_hash=GENESIS)


def problems(made: list[Link], rows_by_id: dict[UUID, SealedRow]) -> list[tuple[int, str]]:
    walk = Walk()
    return [(link.seq, text) for link in made for text in walk.step(link, rows_by_id.get(link.audit_id))]


def test_a_chain_as_it_was_made_holds():
    made, chain = chain_of(5)
    assert problems(chain, {row.id: row for row in made}) == []


def test_links_can_be_made_in_any_number_of_batches():
    made, chain = chain_of(7)
    first = links(made[:3], after_seq=0, after_hash=GENESIS)
    assert first + links(made[3:], after_seq=first[-1].seq, after_hash=first[-1].hash) == chain


@pytest.mark.parametrize("field", FIELDS)
def test_a_change_of_any_column_is_found_at_its_link_and_nowhere_else(field):
    made, chain = chain_of(5)
    old = getattr(made[2], field)
    new = (
        UUID(int=99)
        if old is None or isinstance(old, UUID)
        else old + (timedelta(microseconds=1) if isinstance(old, datetime) else "x")
    )
    rows_by_id = {row.id: row for row in made} | {made[2].id: msgspec.structs.replace(made[2], **{field: new})}
    assert [seq for seq, _ in problems(chain, rows_by_id)] == [3]


@pytest.mark.parametrize(
    ("change", "found_at"),
    [
        ({"hash": b"\0" * 32}, {3, 4}),
        ({"prev_hash": b"\0" * 32}, {3}),
        ({"version": 2}, {3}),
        ({"audit_id": UUID(int=77)}, {3}),
    ],
)
def test_a_change_of_a_link_is_found(change, found_at):
    made, chain = chain_of(5)
    chain[2] = msgspec.structs.replace(chain[2], **change)
    assert {seq for seq, _ in problems(chain, {row.id: row for row in made})} == found_at


def test_a_missing_link_and_a_second_one_of_a_number_are_found():
    made, chain = chain_of(5)
    rows_by_id = {row.id: row for row in made}
    assert {seq for seq, _ in problems(chain[:2] + chain[3:], rows_by_id)} == {4}
    assert {text for _, text in problems([*chain[:3], chain[2], *chain[3:]], rows_by_id)} == {
        "link 3 is there twice",
        "link 3 is not attached to the link before it",
    }


def test_two_rows_that_changed_places_are_found():
    made, chain = chain_of(4)
    swapped = {
        made[1].id: msgspec.structs.replace(made[2], id=made[1].id),
        made[2].id: msgspec.structs.replace(made[1], id=made[2].id, details="{}"),
    }
    assert 3 in {seq for seq, _ in problems(chain, {row.id: row for row in made} | swapped)}
