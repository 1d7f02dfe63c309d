"""What the provider said is kept for as long as the policies say, and the first equation stays whole."""

from typing import Any

from gpuaas.domains.payments.reconciling import handlers as reconciling
from gpuaas.domains.payments.reconciling import service
from gpuaas.domains.payments.webhooks import handlers as webhooks
from gpuaas.kit.ids import new_id
from tests.support.till import Till, notice, session_of

AGE = """
UPDATE webhook_events SET id = overlay(id::text placing '00000000-0000' from 1 for 13)::uuid WHERE event_id = ANY($1)
"""


async def sides(till: Till) -> dict[str, tuple[int, int]]:
    async with till.purse.reading() as tx:
        return {one.currency: (one.provider_micros, one.ledger_micros) for one in await service.sides(tx)}


async def test_notices_that_were_acted_on_go_and_those_that_wait_stay(till: Till, superuser: Any):
    payment = await till.read((await till.top_up(20))["id"])
    acted, waiting, fresh = (f"evt_{new_id().hex}" for _ in range(3))
    refund = {"id": f"re_{new_id().hex}", "amount": 100, "currency": "usd", "payment_intent": f"pi_{new_id().hex}"}
    await till.send(notice("checkout.session.completed", session_of(payment), acted))
    await till.send(notice("refund.created", refund, waiting))
    await till.send(notice("something.new", {"id": "x"}, fresh))
    await till.react()
    await superuser.execute(AGE, [acted, waiting])
    before = (await till.purse.balance()).balance_micros
    await webhooks.webhooks_prune(till.purse.city.parts)
    rows = await till.rows("SELECT event_id FROM webhook_events WHERE event_id = ANY($1)", [acted, waiting, fresh])
    assert {row["event_id"] for row in rows} == {waiting, fresh}
    await till.send(notice("checkout.session.completed", session_of(payment), acted))
    await till.react()
    assert (await till.purse.balance()).balance_micros == before


async def test_statements_go_and_their_sum_stays(till: Till, superuser: Any):
    for units in (20, 30):
        await till.paid(units)
    differing = await till.paid(40)
    await till.reconcile()
    before = await sides(till)
    await superuser.execute("UPDATE payment_statements SET seen_at = now() - interval '500 days'")
    await superuser.execute(
        "INSERT INTO payment_differences (id, kind, object_id, currency, ours_micros, theirs_micros, detail) "
        "VALUES (gen_random_uuid(), 'amount', $1, 'USD', 0, 0, 'somebody looks at it')",
        differing["session_id"],
    )
    for _ in range(2):
        await reconciling.statements_prune(till.purse.city.parts)
    assert [row["object_id"] for row in await till.rows("SELECT object_id FROM payment_statements")] == [
        differing["session_id"]
    ]
    assert await sides(till) == before


async def test_while_the_provider_was_not_asked_nothing_goes_that_its_lists_may_say_again(till: Till, superuser: Any):
    await till.paid(25)
    await till.reconcile()
    count = "SELECT count(*) AS n FROM payment_statements"
    [had] = await till.rows(count)
    await superuser.execute("UPDATE payment_statements SET seen_at = now() - interval '500 days'")
    await superuser.execute("UPDATE payment_reconciliations SET began_at = now() - interval '499 days'")
    await reconciling.statements_prune(till.purse.city.parts)
    assert await till.rows(count) == [had]
    assert len(await till.rows("SELECT FROM payment_reconciliations")) >= 1
