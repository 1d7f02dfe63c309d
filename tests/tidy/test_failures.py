"""docs/failures.md says that every row is a test: here is which."""

import ast
import re

from tests.tidy.rule import ROOT

DRIVERS = "tests/flows/test_driver_failures.py"
ADVERSITY = "tests/flows/test_allocation_adversity.py"
LIFETIME = "tests/domains/allocations/test_lifetime.py"
CONDITION = "tests/domains/allocations/test_condition.py"
STEPS = "tests/flows/test_every_step.py"
STOPPING = "tests/flows/test_stop_and_start.py"
LADDER = "tests/flows/test_ladder.py"
MONEY = "tests/flows/test_money.py"
FAULTS = "tests/domains/allocations/test_faults_and_money.py"
SHOWN = {
    "there is no money for its deposit any more": (
        MONEY,
        "test_one_that_waits_takes_its_deposit_when_it_is_served_and_fails_if_there_is_no_money_then",
    ),
    "a GPU has a fault (XID 79, …) that its driver told or a check found": (
        FAULTS,
        "test_xid_79_stops_the_clock_at_the_last_good_proof_and_what_was_charged_beyond_goes_back",
    ),
    "the balance is empty, and stays so": (
        LADDER,
        "test_without_money_it_is_released_clean_with_a_certificate_after_the_grace",
    ),
    "money comes while it is being stopped": (
        LADDER,
        "test_a_top_up_while_it_stops_starts_it_once_it_is_stopped",
    ),
    "the node does not prove that the login is closed": (
        LADDER,
        "test_a_stop_that_no_node_has_proven_is_asked_for_again",
    ),
    "a GPU fails its proof when it is started": (
        STOPPING,
        "test_a_start_whose_gpus_are_sick_closes_the_login_again",
    ),
    "the node is lost while it is stopped": (
        LADDER,
        "test_a_node_lost_while_stopped_is_not_started_until_it_is_back",
    ),
    "it is released while it stops or starts": (
        STOPPING,
        "test_a_release_while_it_starts_comes_first_and_leaves_no_account",
    ),
    "events of money come twice, late, in any order, or not at all": (
        LADDER,
        "test_events_that_come_late_and_in_the_wrong_order_do_what_is_right_now",
    ),
    "a GPU fails its health proof": (
        DRIVERS,
        "test_a_failed_health_proof_fails_the_allocation_and_the_sick_gpu_is_quarantined",
    ),
    "the host is silent": (DRIVERS, "test_a_node_that_is_silent_while_it_is_made_ready_fails_the_allocation"),
    "the node stops being sold at that moment": (
        DRIVERS,
        "test_a_node_that_is_not_sold_any_more_at_that_moment_fails_it_and_its_gpus_are_free",
    ),
    "a task hangs": (DRIVERS, "test_a_task_that_times_out_is_asked_again"),
    "its host keeps the GPU for another allocation, or does not have it": (
        ADVERSITY,
        "test_a_gpu_its_host_keeps_for_somebody_else_is_in_quarantine_and_the_next_request_gets_another",
    ),
    "the host tells of its health what contradicts itself, or of other GPUs": (
        ADVERSITY,
        "test_nothing_is_active_by_a_health_report_that_contradicts_itself",
    ),
    "the account cannot be made (disk full, …)": (DRIVERS, "test_two_failed_provisions_in_a_row_quarantine_the_node"),
    "the agent crashes in the middle of a task": (
        DRIVERS,
        "test_an_agent_that_crashes_in_the_middle_of_making_the_account_makes_one",
    ),
    "the tenant gives it back": (DRIVERS, "test_cancelled_while_it_is_made_ready_it_leaves_nothing"),
    "the worker dies, at any step, before or after its commit": (
        STEPS,
        "test_a_worker_that_dies_at_a_step_leaves_a_story_that_ends_as_if_nothing_were",
    ),
    "the flow itself can neither go on nor surrender": (
        ADVERSITY,
        "test_an_allocation_whose_flow_cannot_even_surrender_leaves_its_state_with_its_gpus_in_quarantine",
    ),
    "it is not ready after 45 minutes": (LIFETIME, "test_what_is_not_ready_in_time_is_taken_back"),
    "a GPU is lost or sick": (DRIVERS, "test_a_gpu_lost_while_active_is_not_given_to_the_next_tenant"),
    "the node is silent": (CONDITION, "test_a_lost_node_degrades_what_is_on_it_until_it_is_back"),
    "the lease ends": (LIFETIME, "test_whose_lease_has_ended_is_released"),
    "nobody uses it, and `allocations.idle_reclaim` is on": (
        LIFETIME,
        "test_an_unused_allocation_is_warned_and_then_released",
    ),
    "the account or lease is missing on the node, or one is there that the books do not know": (
        "tests/domains/allocations/test_reality.py",
        "test_the_account_and_the_lease_an_active_allocation_lacks_are_made_again",
    ),
    "a GPU refuses its reset, or its memory or disk cannot be shown to be clear": (
        DRIVERS,
        "test_a_refused_reset_ends_the_release_with_that_gpu_in_quarantine",
    ),
    "with `allocations.isolation` = `full-reimage`, the node cannot be installed anew": (
        "tests/flows/test_full_reimage.py",
        "test_a_node_that_cannot_be_installed_anew_is_in_quarantine_and_offered_to_nobody",
    ),
    "a GPU fails its health check afterwards": (
        DRIVERS,
        "test_a_gpu_that_fails_its_check_after_the_cleaning_is_in_quarantine_and_the_others_are_free",
    ),
    "something of the account is left": (
        ADVERSITY,
        "test_what_is_left_of_an_account_keeps_it_from_being_released",
    ),
    "the node is cut off": (
        DRIVERS,
        "test_a_partition_during_release_ends_in_release_failed_and_heals_when_the_node_is_back",
    ),
    "the node never comes back": (
        ADVERSITY,
        "test_a_node_that_is_dead_for_ever_can_be_removed_and_what_could_not_be_proven_gone_ends_with_it",
    ),
    "an operator forces it": (
        DRIVERS,
        "test_forced_release_is_counted_backed_off_and_ends_with_the_node_in_quarantine",
    ),
    "owner and operator release at once": (
        "tests/domains/allocations/test_requests.py",
        "test_a_release_and_a_forced_release_at_once_end_as_one_release",
    ),
}


def rows() -> set[str]:
    """The first cell of every row but the heads."""
    lines = (ROOT / "docs/failures.md").read_text().splitlines()
    cells = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")]
    return {cell for cell in cells if cell != "what happens"}


def test_every_row_has_its_test_and_every_test_is_there() -> None:
    assert rows() == set(SHOWN)
    for file, name in SHOWN.values():
        tree = ast.parse((ROOT / file).read_text())
        assert name in {one.name for one in tree.body if isinstance(one, ast.AsyncFunctionDef | ast.FunctionDef)}, name


def test_the_rows_are_read() -> None:
    assert len(rows()) > 20
    assert all(re.search(r"[a-z]", row) for row in rows())
