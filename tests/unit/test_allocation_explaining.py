"""What an allocation's people are told when they ask why: sentences, by state, from values alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuaas.contracts.http.allocations import AllocationState, Isolation, QueuePlace
from gpuaas.domains.allocations.explaining.answers import explained, summary
from gpuaas.domains.allocations.explaining.facts import Facts, PolicyHere
from gpuaas.domains.allocations.explaining.wording import about, lasting, listed, money, sentence, until
from gpuaas.domains.allocations.models import Allocation, Shown, ShownGpu
from gpuaas.domains.allocations.money.models import NOTHING, Money
from gpuaas.domains.allocations.states import LIFE, LIVE
from gpuaas.domains.billing.ledger.models import Entry
from gpuaas.kit.ids import AllocationId, NodeId, OrgId, ProjectId, SkuId, TransactionId, new_id

S = AllocationState
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
ID, ORG, PROJECT, SKU, NODE = (new_id() for _ in range(5))
POLICIES = {
    "allocations.isolation": PolicyHere("user-revoke", "allocations.isolation is user-revoke: the default."),
    "allocations.lifetime_hours_max": PolicyHere(720, "allocations.lifetime_hours_max is 720 hours: the default."),
    "allocations.idle_reclaim": PolicyHere(False, "allocations.idle_reclaim is false: the default."),
    "allocations.idle_minutes": PolicyHere(120, ""),
    "allocations.idle_grace_minutes": PolicyHere(30, ""),
    "allocations.node_lost_action": PolicyHere("keep", "allocations.node_lost_action is keep: the default."),
    "billing.hold_minutes": PolicyHere(60, "billing.hold_minutes is 60 minutes: the default."),
    "billing.fault_credit_minutes": PolicyHere(60, "billing.fault_credit_minutes is 60 minutes: the default."),
    "allocations.queue_hours": PolicyHere(72, "allocations.queue_hours is 72 hours: set at level org."),
}
PLACE = QueuePlace(position=2, waiting=5, estimated_start=NOW + 3 * HOUR, reason="1 is before it, by age.")

RELEASED = {S.RELEASING, S.RELEASED, S.RELEASE_FAILED}
USED = Money(cost_micros=14_000_000, usable_seconds=7_200, held_micros=7_000_000, runway_seconds=86_400)
CREDIT = Entry(
    id=TransactionId(new_id()),
    number=3,
    at=NOW - HOUR,
    kind="credit",
    amount_micros=7_000_000,
    balance_micros=7_000_000,
    currency="USD",
    subject_id=ID,
    reason="hardware fault: XID 79",
    reverses_id=None,
    actor="system",
)
UNSEEN: dict[str, Any] = {
    "price_id": new_id(),
    "requested_by_id": None,
    "ssh_keys": [],
    "priority": 0,
    "placement": "2 GPUs on gpu-7: the fullest of 3 nodes with room",
    "connection_sealed": None,
    "lease_seconds": 86_400,
    "expiry_warned_at": None,
    "idle_since": None,
    "idle_warned_at": None,
    "stop_requested_at": None,
    "stop_due_at": None,
    "stop_after": None,
    "forced": False,
    "force_attempts": 0,
    "force_after": None,
    "correlation_id": "",
}
"""What of a row only its explanation sees."""


def gpu(index: int = 0, quarantine: str = "", state: str = "held") -> ShownGpu:
    return ShownGpu(
        node_id=NodeId(NODE),
        node_name="gpu-7",
        address="10.0.0.7",
        gpu_index=index,
        serial=f"S{index}",
        model="H200",
        numa=0,
        state=state,
        quarantine=quarantine,
    )


WELL = {"degraded_since": None, "degraded_reason": ""}


def stop_of(state: AllocationState) -> dict[str, Any]:
    stopped = state in {S.STOPPING, S.STOPPED, S.STARTING}
    return {"stop_reason": "balance" if stopped else "", "stopped_by": "", "stop_unpaid": False}


def facts(state: AllocationState, *, place: QueuePlace | None = None, certificates: int = 0, **changed: Any) -> Facts:
    """Of an allocation of two GPUs that was active for two hours, if it ever was."""
    was_active, released = state not in {S.REQUESTED, S.PROVISIONING, S.FAILED}, state in RELEASED
    row: dict[str, Any] = {
        "id": AllocationId(ID),
        "org_id": OrgId(ORG),
        "project_id": ProjectId(PROJECT),
        "name": "train",
        "sku_id": SkuId(SKU),
        "gpu_count": 2,
        "node_count": 1,
        "isolation": Isolation.USER_REVOKE,
        "tags": [],
        "requested_by": "ada@example.com",
        "state": state,
        "state_since": NOW,
        "due_at": NOW + HOUR if LIFE.table[state].deadline is not None else None,
        **WELL,
        "created_at": NOW,
        "active_at": NOW - 2 * HOUR if was_active else None,
        "expires_at": NOW + 22 * HOUR if was_active else None,
        "ends_at": NOW + 700 * HOUR if was_active else None,
        "reclaim_at": None,
        "release_requested_at": NOW if released else None,
        "released_by": "ada@example.com" if released else "",
        "release_reason": "done for today" if released else "",
        "ended_at": NOW if state in {S.RELEASED, S.FAILED} else None,
        "failure_code": "health_proof_failed" if state is S.FAILED else "",
        "failure": "GPU S1: bandwidth" if state is S.FAILED else "",
        "version": 1,
        **stop_of(state),
    }
    more = UNSEEN | ({"placement": ""} if state is S.REQUESTED else {})
    own = changed.pop("policies", {})
    gpus = changed.pop("gpus", [] if state in {S.REQUESTED, S.FAILED} else [gpu(0), gpu(1)])
    spent, credited = changed.pop("money", USED if was_active else NOTHING), changed.pop("credits", [])
    row |= {name: value for name, value in changed.items() if name in row}
    more |= {name: value for name, value in changed.items() if name in more}
    shown = row | {
        "sku_name": "h200-8",
        "region": "eu-1",
        "gpu_model": "H200",
        "currency": "USD",
        "micros_per_gpu_hour": 3_500_000,
    }
    return Facts(
        shown=Shown(**shown),
        allocation=Allocation(**row, **more),
        gpus=gpus,
        place=place,
        price_from=datetime(2026, 1, 1, tzinfo=UTC),
        certificates=certificates,
        policies=POLICIES | own,
        money=spent,
        credits=credited,
        now=NOW,
    )


def answer(given: Facts, question: str) -> str:
    return next((one.answer for one in explained(given).explanations if one.question == question), "")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (facts(S.REQUESTED, place=PLACE), "train waits for 2 H200 GPUs, at place 2 of 5."),
        (facts(S.REQUESTED), "train waits for 2 H200 GPUs."),
        (facts(S.REQUESTED, gpu_count=1), "train waits for 1 H200 GPU."),
        (facts(S.PROVISIONING), "train is being made ready: 2 H200 GPUs on gpu-7."),
        (
            facts(S.PROVISIONING, release_requested_at=NOW),
            "train was given back before it was ready, and is being taken back.",
        ),
        (facts(S.ACTIVE), "train has 2 H200 GPUs on gpu-7, active for 2 hours."),
        (
            facts(S.ACTIVE, node_count=2, degraded_since=NOW),
            "train has 2 H200 GPUs on each of 2 nodes on gpu-7, active for 2 hours, and it is degraded.",
        ),
        (facts(S.STOPPING), "train is being stopped: its login is closed and what runs is ended on gpu-7."),
        (facts(S.STOPPED), "train is stopped; its home and 2 H200 GPUs on gpu-7 are kept."),
        (facts(S.STARTING), "train is being started again: 2 H200 GPUs on gpu-7."),
        (facts(S.RELEASING), "train is being given back: 2 H200 GPUs on gpu-7 are being cleaned and checked."),
        (facts(S.RELEASED), "train was given back, and nothing of it is left on gpu-7."),
        (
            facts(S.RELEASED, gpus=[gpu(0), gpu(1, state="quarantined")]),
            "train was given back; not all of its GPUs could be proven clean, so those are in quarantine.",
        ),
        (facts(S.FAILED), "train never became active; nothing was charged."),
        (facts(S.FAILED, failure_code="cancelled"), "train was given back before it was active; nothing was charged."),
        (facts(S.RELEASE_FAILED), "train could not be proven gone on gpu-7, so its GPUs are in quarantine."),
    ],
)
def test_the_summary_is_one_sentence_for_every_state(given: Facts, said: str):
    assert summary(given) == said


@pytest.mark.parametrize(
    ("given", "question", "said"),
    [
        (
            facts(S.STOPPED),
            "Why is it stopped?",
            "The balance is empty. It is not charged while it is stopped.",
        ),
        (
            facts(S.STOPPED, stop_reason="user", stopped_by="ada@example.com"),
            "Why is it stopped?",
            "ada@example.com stopped it. Its GPUs are kept for you, so it is charged as before.",
        ),
        (
            facts(S.STOPPED, stop_reason="budget", failure_code="start_failed", failure="GPU S1: bandwidth"),
            "Why is it stopped?",
            "The project's budget is spent. It is not charged while it is stopped. What was tried last failed: "
            "GPU S1: bandwidth.",
        ),
        (
            facts(S.STOPPED),
            "What happens next?",
            "It is started again as soon as there is money (`gpuaas billing top-up`); it is released at "
            "2026-03-01 13:00 UTC, in 1 hour, if it is not.",
        ),
        (
            facts(S.STOPPED, stop_reason="user", stopped_by="ada@example.com", due_at=None),
            "What happens next?",
            "It stays stopped until somebody starts it (`gpuaas allocations start`); it is released at "
            "2026-03-02 10:00 UTC, in 22 hours, if it is not.",
        ),
        (facts(S.REQUESTED, place=PLACE), "Why does it wait?", "1 is before it, by age."),
        (
            facts(S.REQUESTED, place=PLACE),
            "When may it start?",
            "About 2026-03-01 15:00 UTC, in 3 hours, if nobody renews or gives back before.",
        ),
        (
            facts(S.REQUESTED, place=PLACE),
            "How long may it wait?",
            "Until its time in the queue is over; then it fails. allocations.queue_hours is 72 hours: "
            "set at level org.",
        ),
        (
            facts(S.REQUESTED, place=PLACE),
            "What happens next?",
            "It is given GPUs when its turn comes. At the latest at 2026-03-01 13:00 UTC, in 1 hour, it is given "
            "up and fails.",
        ),
        (facts(S.PROVISIONING), "Why these GPUs?", "2 GPUs on gpu-7: the fullest of 3 nodes with room."),
        (
            facts(S.PROVISIONING),
            "What does it cost?",
            "Nothing yet. 3.50 USD per GPU-hour, the price of h200-8 since 2026-01-01 00:00 UTC, 7.00 USD for its 2. "
            "That price stays for as long as it lasts.",
        ),
        (
            facts(S.ACTIVE),
            "What does it cost?",
            "3.50 USD per GPU-hour, the price of h200-8 since 2026-01-01 00:00 UTC, 7.00 USD for its 2. That price "
            "stays for as long as it lasts. It counts from 2026-03-01 10:00 UTC on, while it can be used: 14.00 USD "
            "for 2 hours.",
        ),
        (
            facts(S.ACTIVE),
            "What is set aside for it?",
            "7.00 USD, given back when it is released. The balance lasts 1 day with all that runs. "
            "billing.hold_minutes is 60 minutes: the default.",
        ),
        (
            facts(S.ACTIVE, money=Money(paused_since=NOW - HOUR, paused_reason="GPU S1 on gpu-7: XID 79")),
            "Why is it not charged now?",
            "Since 2026-03-01 11:00:00 UTC, the last good proof, it cannot be used: GPU S1 on gpu-7: XID 79.",
        ),
        (
            facts(S.ACTIVE, credits=[CREDIT]),
            "What was given back for it?",
            "7.00 USD at 2026-03-01 11:00 UTC: hardware fault: XID 79. billing.fault_credit_minutes is 60 minutes: the "
            "default.",
        ),
        (
            facts(S.ACTIVE),
            "What happens next?",
            "Its lease ends at 2026-03-02 10:00 UTC, in 22 hours: then it is released, unless it is renewed "
            "(`gpuaas allocations renew`).",
        ),
        (
            facts(S.ACTIVE, expires_at=NOW + HOUR, ends_at=NOW + HOUR),
            "What happens next?",
            "It is released at 2026-03-01 13:00 UTC, in 1 hour, and cannot be renewed any more.",
        ),
        (
            facts(S.ACTIVE, reclaim_at=NOW + HOUR / 2),
            "What happens next?",
            "Nobody uses it: it is released at 2026-03-01 12:30 UTC, in 30 minutes, unless it is used or renewed.",
        ),
        (
            facts(S.ACTIVE),
            "What if nobody uses it?",
            "It is kept all the same. allocations.idle_reclaim is false: the default.",
        ),
        (
            facts(
                S.ACTIVE, idle_since=NOW - HOUR, policies={"allocations.idle_reclaim": PolicyHere(True, "It is on.")}
            ),
            "What if nobody uses it?",
            "Its GPUs have not been used for 1 hour. After 2 hours without use its people are warned, and 30 minutes "
            "later it is released. It is on.",
        ),
        (
            facts(S.ACTIVE, policies={"allocations.node_lost_action": PolicyHere("end", "The operator said so.")}),
            "What if its node is lost?",
            "It is released. The operator said so.",
        ),
        (
            facts(S.ACTIVE),
            "How are its GPUs?",
            "2 GPUs, proven healthy before it became active, and watched since: no fault is known.",
        ),
        (
            facts(
                S.ACTIVE, degraded_since=NOW - HOUR, degraded_reason="a GPU was lost", gpus=[gpu(0), gpu(1, "xid_79")]
            ),
            "How are its GPUs?",
            "Degraded for 1 hour: a GPU was lost. Release it and ask again: others are chosen.",
        ),
        (
            facts(S.FAILED),
            "Why did it fail?",
            "GPU S1: bandwidth. The GPUs that failed are in quarantine, so the next request gets others: ask again.",
        ),
        (
            facts(S.FAILED, failure_code="no_space", failure="the disk is full"),
            "Why did it fail?",
            "The disk is full. Ask again; if it fails again, tell your operator the allocation's id.",
        ),
        (facts(S.FAILED), "What does it cost?", "Nothing: it was never active."),
        (
            facts(S.RELEASED, certificates=1),
            "Why was it given back?",
            "ada@example.com asked for it at 2026-03-01 12:00 UTC: done for today.",
        ),
        (
            facts(S.RELEASED, forced=True, released_by="root@example.com"),
            "Why was it given back?",
            "root@example.com, an operator, asked for it at 2026-03-01 12:00 UTC: done for today.",
        ),
        (
            facts(S.RELEASED, released_by="system:lifetime", release_reason="lease_expired"),
            "Why was it given back?",
            "By itself at 2026-03-01 12:00 UTC: its lease had ended and nobody renewed it.",
        ),
        (
            facts(S.RELEASED, certificates=2),
            "How was it cleaned?",
            "2 signed certificates say what was cleaned and how, GPU by GPU: `gpuaas certificates download` keeps it, "
            "`gpuaas certificates verify` checks it without us.",
        ),
        (
            facts(S.RELEASED, certificates=1, gpus=[gpu(0), gpu(1, state="quarantined")]),
            "How was it cleaned?",
            "Not proven clean, and so in quarantine: GPU 1 of gpu-7. 1 signed certificate says what was cleaned and "
            "how, GPU by GPU: `gpuaas certificates download` keeps it, `gpuaas certificates verify` checks it "
            "without us.",
        ),
        (
            facts(S.ACTIVE, gpus=[gpu(0), gpu(1, "xid_79")]),
            "How are its GPUs?",
            "In quarantine: GPU 1 of gpu-7 (xid_79). Release it and ask again: others are chosen.",
        ),
        (
            facts(S.RELEASING),
            "What happens next?",
            "The account goes, memory and disks are cleared, the GPUs are checked; then it is released. At the latest "
            "at 2026-03-01 13:00 UTC, in 1 hour, they are put into quarantine and it is release_failed.",
        ),
        (
            facts(S.RELEASE_FAILED, force_attempts=2, failure="the node does not answer"),
            "Why is it not released?",
            "The node does not answer. An operator has forced it 2 times. Nobody is given these GPUs, and you are not "
            "charged for them.",
        ),
    ],
)
def test_an_answer_reads_well(given: Facts, question: str, said: str):
    assert answer(given, question) == said


@pytest.mark.parametrize("state", S)
def test_every_state_has_a_summary_answers_and_while_it_lives_what_comes_next(state: AllocationState):
    given = facts(state, place=PLACE if state is S.REQUESTED else None)
    told = explained(given)
    assert len(told.explanations) >= 2
    assert bool(answer(given, "What happens next?")) is (state in LIVE)
    for one in (told.summary, *(each.answer for each in told.explanations)):
        assert one[-1] == "."
        assert "  " not in one
        assert "None" not in one


def test_whole_nodes_say_how_they_are_kept_apart():
    given = facts(S.ACTIVE, isolation=Isolation.FULL_REIMAGE)
    assert answer(given, "How is it kept apart from others?").startswith("By whole nodes that are set up anew")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "less than a second"),
        (1, "1 second"),
        (59.7, "1 minute"),
        (90, "1 minute 30 seconds"),
        (3_599.9, "1 hour"),
        (86_399, "1 day"),
        (100_000, "1 day 4 hours"),
    ],
)
def test_a_span_is_told_in_two_units_and_rounded(seconds: float, said: str):
    assert lasting(timedelta(seconds=seconds)) == said


def test_money_is_exact_where_a_cent_is_too_coarse():
    assert money("EUR", 3_500_000) == "3.50 EUR"
    assert money("EUR", 1_234_567) == "1.234567 EUR"
    assert money("EUR", 100) == "0.0001 EUR"
    assert about("EUR", 14_005_000) == "14.01 EUR"


def test_the_past_is_only_named_and_long_lists_are_cut():
    assert until(NOW - HOUR, NOW) == "2026-03-01 11:00 UTC"
    assert listed([f"n{i}" for i in range(10)] * 2) == "n0, n1, n2, n3, n4, n5, n6, n7 and 2 more"
    assert sentence("") == ""
    assert sentence("what now?") == "What now?"
