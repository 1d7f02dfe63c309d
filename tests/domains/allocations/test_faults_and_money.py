"""What a fault costs whom: the clock stops at the last good proof, what was charged beyond goes back and says why, and
there is a credit by rule, once. It goes on when the hardware is proven good again."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gpuaas.contracts.http.allocations import StopReason
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.lifetime import handlers
from gpuaas.domains.allocations.lifetime.condition import HeldGpu, unusable
from gpuaas.domains.allocations.reality import handlers as reality
from gpuaas.domains.allocations.stopping import service as stopping
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import Entry, Wanted
from gpuaas.domains.billing.meters import service as meters
from gpuaas.domains.billing.meters.models import Cost
from gpuaas.domains.pki.site import Pki
from gpuaas.kit import clock, signed_usage
from gpuaas.kit.ids import OrgId, new_id
from tests.domains.allocations.test_condition import back, silence
from tests.support.certificates import enrolled
from tests.support.fleet import EVERYTHING
from tests.support.ground import Ground
from tests.support.money import backdated
from tests.support.people import found, refusal

LAST = UUID(int=(1 << 128) - 1)
A_SECOND = 1_000
"""Micro-units, of one GPU."""
HOUR = 3_600


async def cost(ground: Ground, allocation_id: UUID) -> Cost:
    async with ground.db.read(EVERYTHING) as tx:
        known = await meters.meter_cost(tx, allocation_id)
    assert known is not None
    return known


async def entries(ground: Ground, allocation_id: UUID) -> list[Entry]:
    """Of the ledger about it, the newest first."""
    async with ground.db.read(EVERYTHING) as tx:
        wanted = Wanted(org_id=OrgId(ground.org_id), currency="USD", subject_id=allocation_id)
        return await ledger.entry_list(tx, wanted, before=LAST, limit=100)


async def charge(ground: Ground) -> None:
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        await tx.run("SELECT * FROM usage_accrue($1, $1, 1000, 'infinity', 'test', '')", UUID(int=0))


async def told(ground: Ground, allocation_id: UUID) -> dict[str, str]:
    moments = found(await ground.say("GET", f"/{allocation_id}/timeline"), 200)["moments"]
    return {moment["phase"]: moment["detail"] for moment in moments}


async def explained(ground: Ground, allocation_id: UUID) -> dict[str, str]:
    answer = found(await ground.say("GET", f"/{allocation_id}/explain"), 200)
    return {one["question"]: one["answer"] for one in answer["explanations"]}


async def test_xid_79_stops_the_clock_at_the_last_good_proof_and_what_was_charged_beyond_goes_back(
    ground: Ground, superuser: Any
) -> None:
    made = await ground.active(1)
    [machine] = ground.machines
    [serial] = machine.leases.all[made.id]
    await backdated(superuser, made.id, 2 * HOUR)
    await charge(ground)
    charged = (await cost(ground, made.id)).posted_micros
    fell = clock.now() - timedelta(minutes=30)
    found(await machine.fault(serial, code="XID 79", at=fell.isoformat()), 200)
    await ground.fleet.react()

    stopped = await cost(ground, made.id)
    assert (stopped.paused, stopped.posted_micros) == (True, stopped.micros)
    assert 1_790 <= (charged - stopped.micros) / A_SECOND <= 1_830, "half an hour, less the beat before the fault"
    [by_rule, gone_back, *_] = await entries(ground, made.id)
    assert (gone_back.kind, gone_back.amount_micros) == ("usage_credit", charged - stopped.micros)
    assert "XID 79" in gone_back.reason
    assert (by_rule.kind, by_rule.amount_micros) == ("credit", HOUR * A_SECOND)
    assert "XID 79" in by_rule.reason
    timeline, why = await told(ground, made.id), await explained(ground, made.id)
    assert "XID 79" in timeline["not_charged"]
    assert "by the rule for hardware faults" in timeline["credited"]
    assert "XID 79" in why["Why is it not charged now?"]
    assert "3.60 USD" in why["What was given back for it?"]
    shown = found(await ground.say("GET", f"/{made.id}"), 200)
    assert (shown["charging"], "XID 79" in shown["not_charged_reason"]) == (False, True)
    assert shown["cost_micros"] == stopped.micros

    for _ in range(2):  # whoever looks again changes nothing
        await handlers.condition_sweep(ground.parts)
        await charge(ground)
    assert len(await ground.fleet.events("billing.fault_credited", made.id)) == 1
    assert len([one for one in await entries(ground, made.id) if one.kind != "usage"]) == 2
    assert (await cost(ground, made.id)).micros == stopped.micros
    assert await ground.leftovers() == []
    await ground.release(made.id)
    await ground.run()
    assert (await cost(ground, made.id)).posted_micros == stopped.micros, "nothing more until the release"


async def test_it_is_charged_again_from_when_the_gpu_is_proven_good(ground: Ground, superuser: Any) -> None:
    made = await ground.active(1)
    [machine] = ground.machines
    [serial] = machine.leases.all[made.id]
    found(await machine.fault(serial, code="XID 79"), 200)
    await ground.fleet.react()
    stopped = await cost(ground, made.id)
    await superuser.execute("UPDATE slot_quarantines SET ended_at = now() WHERE serial = $1", serial)
    await handlers.condition_sweep(ground.parts)
    again = await cost(ground, made.id)
    assert (stopped.paused, again.paused) == (True, False)
    assert "charged_again" in await told(ground, made.id)
    assert (await ground.read(made.id)).degraded_since is None
    await ground.release(made.id)
    await ground.run()


async def test_a_lost_node_is_not_charged_from_its_last_sign_of_life_until_it_is_back(
    ground: Ground, superuser: Any
) -> None:
    made = await ground.active(2)
    await backdated(superuser, made.id, 3 * HOUR)
    await charge(ground)
    before = await cost(ground, made.id)
    [machine] = ground.machines
    await silence(ground, superuser)
    await superuser.execute(
        "UPDATE node_heartbeats SET seen_at = now() - interval '1 hour' WHERE node_id = $1", machine.id
    )
    await handlers.condition_sweep(ground.parts)
    lost = await cost(ground, made.id)
    assert lost.paused
    assert lost.micros < before.micros
    kinds = [one.kind for one in await entries(ground, made.id)]
    assert kinds[0] == "usage_credit"
    assert "credit" not in kinds, "a node that is silent is no fault of a GPU"
    await back(ground)
    await handlers.condition_sweep(ground.parts)
    assert not (await cost(ground, made.id)).paused
    await ground.release(made.id)
    await ground.run()


@pytest.mark.parametrize("signed", [True, False])
async def test_after_a_blackout_it_is_charged_by_what_its_node_counted_and_signed_not_by_the_silence(
    ground: Ground, superuser: Any, signed: bool
) -> None:
    made = await ground.active(1)
    [machine] = ground.machines
    held = await enrolled(ground.db, ground.parts.get(Pki), node_id=machine.id)
    key = held.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    async def beat(seconds: int) -> None:
        counted: dict[UUID, int] = {made.id: seconds}
        signature = signed_usage.sign(key, signed_usage.words(machine.id, counted))
        told = {"usage": counted, "usage_signature": signature if signed else signature[::-1]}
        found(await machine.heartbeat(accounts=await machine.host.accounts(), leases=machine.leases.all, **told), 200)

    await beat(100)
    await backdated(superuser, made.id, 2 * HOUR)
    machine.silent = True
    await superuser.execute(
        "UPDATE node_heartbeats SET seen_at = now() - interval '1 hour', liveness = 'lost' WHERE node_id = $1",
        machine.id,
    )
    await handlers.condition_sweep(ground.parts)
    blind = await cost(ground, made.id)
    machine.silent = False
    await beat(100 + 1_800)
    await ground.fleet.react()
    seen = await cost(ground, made.id)
    assert (blind.paused, seen.paused) == (True, False)
    more = seen.seconds - blind.seconds
    assert 1_800 <= more < 1_900 if signed else more < 100, "half of the hour in which nobody heard of it"
    timeline = await told(ground, made.id)
    assert ("1800 usable seconds" in timeline["charged_again"]) is signed
    assert ("usage_not_believed" in timeline) is not signed
    await ground.settle()
    await ground.release(made.id)
    await ground.run()


@pytest.mark.parametrize("first", ["fault", "money"])
async def test_the_end_of_a_stop_for_money_ends_no_fault_s_pause_nor_the_other_way_round(
    ground: Ground, superuser: Any, first: str
) -> None:
    """Whatever came first and whatever ends first: not a second is charged while either lasts, without any sweep."""
    made = await ground.active(1)
    [machine] = ground.machines
    [serial] = machine.leases.all[made.id]

    async def stop() -> None:
        async with ground.db.transaction(EVERYTHING, "test") as tx:
            await stopping.allocation_stop(tx, made.id, reason=StopReason.BALANCE, by="test")
        await ground.run()

    async def fall() -> None:
        found(await machine.fault(serial, code="XID 79"), 200)
        await ground.fleet.react()

    for happens in (fall, stop) if first == "fault" else (stop, fall):
        await happens()
    stood = await cost(ground, made.id)
    assert stood.paused
    if first == "fault":  # its people are not charged for a broken GPU, because they have paid
        async with ground.db.transaction(EVERYTHING, "test") as tx:
            await stopping.allocation_start(tx, made.id, by="test")
            starting = await allocations.allocation_lock(tx, made.id)
            await stopping.allocation_started(tx, starting)
        assert (await cost(ground, made.id)).paused
        await superuser.execute("UPDATE slot_quarantines SET ended_at = now() WHERE serial = $1", serial)
        await handlers.condition_sweep(ground.parts)
    else:  # nor for one that is whole again, because nobody has
        await superuser.execute("UPDATE slot_quarantines SET ended_at = now() WHERE serial = $1", serial)
        await handlers.condition_sweep(ground.parts)
        assert (await cost(ground, made.id)).paused
        assert await ground.leftovers() == []
        async with ground.db.transaction(EVERYTHING, "test") as tx:
            await stopping.allocation_start(tx, made.id, by="test")
        await ground.run()
    again = await cost(ground, made.id)
    assert (again.paused, again.seconds - stood.seconds < 60) == (False, True)
    await ground.run()
    await ground.release(made.id)
    await ground.run()


async def test_a_node_that_counts_less_than_is_charged_is_told_of_and_changes_no_money(
    ground: Ground, superuser: Any
) -> None:
    made = await ground.active(1)
    [machine] = ground.machines
    await backdated(superuser, made.id, 2 * HOUR)
    await superuser.execute("UPDATE allocations SET state_since = now() - interval '2 hours' WHERE id = $1", made.id)
    await charge(ground)
    before = await cost(ground, made.id)
    told = {"usage": {made.id: HOUR}, "usage_signature": ""}
    for _ in range(2):
        found(await machine.heartbeat(accounts=await machine.host.accounts(), leases=machine.leases.all, **told), 200)
        await reality.reality_sweep(ground.parts)
        await superuser.execute("UPDATE orphans SET first_seen_at = first_seen_at - interval '2 minutes'")
    rows = (await ground.fleet.city.get(ground.fleet.admin, "/admin/orphans", limit="200"))["items"]
    [row] = [one for one in rows if one["allocation_id"] == str(made.id)]
    assert (row["kind"], "counted 3600 usable seconds" in row["detail"]) == ("usage", True)
    assert len(await ground.fleet.events("orphan.found", UUID(row["id"]))) == 1
    refused = await ground.fleet.city.ask(
        ground.fleet.admin, "POST", f"/admin/orphans/{row['id']}/reclaim", {"reason": "a look"}
    )
    assert refusal(refused) == (409, "state_move_refused")
    assert (await cost(ground, made.id)).posted_micros == before.posted_micros
    await ground.settle()
    await ground.release(made.id)
    await ground.run()


async def test_what_an_operator_looks_at_is_charged_as_before(ground: Ground) -> None:
    made = await ground.active(1)
    [machine] = ground.machines
    [serial] = machine.leases.all[made.id]
    slot = (await ground.fleet.slots(machine))[serial]
    await ground.fleet.order(f"/slots/{slot['id']}/quarantine", {"reason": "a look at its fan"}, 200)
    await ground.fleet.react()
    assert (await ground.read(made.id)).degraded_since is not None
    assert not (await cost(ground, made.id)).paused
    await ground.release(made.id)
    await ground.run()


@pytest.mark.parametrize("minutes", [0, 10])
async def test_the_rule_for_faults_is_a_policy_and_never_gives_more_than_it_cost(
    ground: Ground, superuser: Any, minutes: int
) -> None:
    [machine] = ground.machines
    ground.fleet.city.policy.values["billing.fault_credit_minutes"] = minutes
    made = await ground.active(1)
    [serial] = machine.leases.all[made.id]
    await backdated(superuser, made.id, 300)
    found(await machine.fault(serial), 200)
    await ground.fleet.react()
    used = await cost(ground, made.id)
    given = [one.amount_micros for one in await entries(ground, made.id) if one.kind == "credit"]
    assert given == ([used.micros] if minutes else []), "it has cost less than ten minutes"
    ground.fleet.city.policy.values.pop("billing.fault_credit_minutes")
    await ground.release(made.id)
    await ground.run()


async def test_many_faults_together_give_no_more_than_it_cost(ground: Ground, superuser: Any) -> None:
    [machine] = ground.machines
    made = await ground.active(4)
    await backdated(superuser, made.id, 300)
    for serial in machine.leases.all[made.id]:
        found(await machine.fault(serial, code="XID 79"), 200)
        await ground.fleet.react()
    given = [one.amount_micros for one in await entries(ground, made.id) if one.kind == "credit"]
    assert 0 < sum(given) <= (await cost(ground, made.id)).micros
    await ground.release(made.id)
    await ground.run()


NOW = datetime.fromisoformat("2026-03-01T12:00:00+00:00")
BEAT = timedelta(seconds=5)


def gpu(**changed: Any) -> HeldGpu:
    fields: dict[str, Any] = {
        "node_name": "gpu-7",
        "node_lost": False,
        "serial": "S1",
        "present": True,
        "quarantine": "",
        "node_seen_at": NOW,
    }
    return HeldGpu(**(fields | changed))


def test_the_last_good_proof_is_the_beat_before_the_fault_or_the_last_answer() -> None:
    minute = timedelta(minutes=1)
    fault = gpu(quarantine="XID 79", fault_id=new_id(), fault_at=NOW - minute)
    cases = (
        ([gpu()], None),
        ([gpu(quarantine="operator")], None),
        ([fault], NOW - minute - BEAT),
        ([gpu(quarantine="XID 79", fault_id=new_id(), fault_at=NOW, node_seen_at=NOW - minute)], NOW - minute),
        ([gpu(node_lost=True, node_seen_at=NOW - 2 * minute), fault], NOW - 2 * minute),
        ([gpu(present=False, seen_at=NOW - 3 * minute), fault], NOW - minute - BEAT),
        ([gpu(present=False, seen_at=NOW - 3 * minute)], NOW - 3 * minute),
    )
    for held, good_at in cases:
        out_of_order = unusable(held, BEAT)
        assert (out_of_order[0].good_at if out_of_order else None) == good_at, held
