"""Every life there is: none is stuck, and the database knows exactly its states."""

import re
from typing import Any

import pytest

from gpuaas.kit.life import Life
from gpuaas.processes.gen.lives import lives

LIVES = {life.of: life for _, life in lives()}


@pytest.fixture(scope="module")
async def written(superuser: Any) -> dict[str, set[str]]:
    """The states that the database lets each table have, by its constraints on that column alone."""
    rows = await superuser.fetch(
        "SELECT t.relname, array_agg(pg_get_constraintdef(c.oid)) FILTER (WHERE c.oid IS NOT NULL) AS rules "
        "FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = 'state' AND NOT a.attisdropped "
        "LEFT JOIN pg_constraint c ON c.conrelid = t.oid AND c.contype = 'c' AND c.conkey = ARRAY[a.attnum] "
        "WHERE t.relnamespace = 'public'::regnamespace AND t.relkind IN ('r', 'p') AND NOT t.relispartition "
        "GROUP BY t.relname"
    )
    return {row["relname"]: set(re.findall("'(\\w+)'", " ".join(row["rules"] or []))) for row in rows}


def test_every_life_is_of_one_table() -> None:
    assert len(LIVES) == len(lives())
    assert all(LIVES)


async def test_every_table_with_a_state_has_a_life_and_every_life_a_table(written: dict[str, set[str]]) -> None:
    assert set(written) == set(LIVES)


@pytest.mark.parametrize("table", sorted(LIVES))
async def test_the_database_lets_a_row_have_exactly_the_states_of_its_life(
    written: dict[str, set[str]], table: str
) -> None:
    assert written[table] == {str(state) for state in LIVES[table].table}


@pytest.mark.parametrize("table", sorted(LIVES))
async def test_a_row_begins_with_the_first_state_of_its_life(superuser: Any, table: str) -> None:
    default = await superuser.fetchval(
        "SELECT column_default FROM information_schema.columns "
        "WHERE table_schema = 'public' AND table_name = $1 AND column_name = 'state'",
        table,
    )
    assert default in (None, f"'{next(iter(LIVES[table].table))}'::text")


@pytest.mark.parametrize("life", LIVES.values(), ids=lambda life: str(life.of))
def test_no_state_is_a_dead_end_and_none_lasts_without_a_reason(life: Life[Any]) -> None:
    [kind] = {type(state) for state in life.table}
    assert set(kind.__members__.values()) == set(life.table), "every state of the enumeration has its row"
    for state, row in life.table.items():
        if row.deadline is not None:
            assert row.deadline.total_seconds() > 0
            assert row.on_deadline in row.to, f"{state}: its deadline leads to one of its exits"
        elif row.to:
            assert row.rests, f"{state} lasts, and does not say whom it waits for"


@pytest.mark.parametrize("life", LIVES.values(), ids=lambda life: str(life.of))
def test_every_state_can_be_reached_from_the_first(life: Life[Any]) -> None:
    reached, ahead = set(), [next(iter(life.table))]
    while ahead:
        state = ahead.pop()
        if state not in reached:
            reached.add(state)
            ahead += life.table[state].to
    assert reached == set(life.table)


@pytest.mark.parametrize("life", LIVES.values(), ids=lambda life: str(life.of))
def test_deadlines_alone_lead_out_of_every_state_that_must_not_last(life: Life[Any]) -> None:
    """However many follow each other, they end where somebody is waited for or nothing more happens."""
    for state in life.deadlines():
        passed: list[Any] = []
        while (row := life.table[state]).deadline is not None:
            assert state not in passed, f"deadlines go in circles: {passed}"
            passed.append(state)
            state = row.on_deadline
