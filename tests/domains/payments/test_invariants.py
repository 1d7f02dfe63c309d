"""Each invariant of payments is broken and told."""

from typing import Any

import pytest

from tests.support.till import MICROS, Till

ONE = "invariant_16_one_effect"
MOVE = "invariant_14_payments_move"
BROKEN: list[tuple[str, str, str]] = [
    (ONE, "UPDATE payments SET amount_micros = amount_micros + 10000 WHERE id = $1", "credits"),
    (ONE, "UPDATE payments SET refunded_micros = 10000 WHERE id = $1", "refunded"),
    (ONE, "DELETE FROM payment_effects WHERE payment_id = $1", "0 credits"),
    (
        ONE,
        "INSERT INTO payment_effects (object_id, effect, org_id, payment_id, currency, amount_micros, transaction_id, "
        "source) SELECT 'cs_again', 'paid', org_id, id, currency, amount_micros, transaction_id, 'notice' "
        "FROM payments WHERE id = $1",
        "2 credits",
    ),
    (ONE, "UPDATE payment_effects SET amount_micros = 1 WHERE payment_id = $1", "moved"),
    (
        MOVE,
        "UPDATE payments SET state = 'open', transaction_id = NULL, due_at = now() - interval '2 minutes' "
        "WHERE id = $1",
        "should not be",
    ),
]


@pytest.mark.parametrize(("view", "harm", "problem"), BROKEN, ids=[harm[:50] for _, harm, _ in BROKEN])
async def test_an_invariant_that_is_broken_is_told(till: Till, superuser: Any, view: str, harm: str, problem: str):
    payment = await till.paid(50)
    assert await superuser.fetch(f"SELECT * FROM {view}") == []
    transaction = superuser.transaction()
    await transaction.start()
    try:
        await superuser.execute("SET LOCAL session_replication_role = replica")
        await superuser.execute(harm, payment["id"])
        told = [row["problem"] for row in await superuser.fetch(f"SELECT problem FROM {view}")]
        assert any(problem in one for one in told), told
    finally:
        await transaction.rollback()
    assert await till.broken() == []
    assert (await till.read(payment["id"])).amount_micros == 50 * MICROS


async def test_the_programs_role_cannot_change_an_effect(till: Till):
    payment = await till.paid(50)
    for sql in (
        "UPDATE payment_effects SET amount_micros = 1 WHERE payment_id = $1",
        "DELETE FROM payment_effects WHERE payment_id = $1",
    ):
        with pytest.raises(Exception, match=r"permission denied"):
            async with till.purse.writing() as tx:
                await tx.run(sql, payment["id"])
