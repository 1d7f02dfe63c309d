"""Operating an installation: every invariant can break and is told by its name; health and stats for who may ask."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import asyncpg
import pytest

import gpuaas.domains.admin.routes  # noqa: F401 - declares the operations asked here
from gpuaas.contracts.permissions import PlatformRole, Role
from gpuaas.domains.admin.service import EVERYTHING
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.domains.policy.service import policy_refresh
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.migrate import head
from gpuaas.infra.signing import SigningKeys
from gpuaas.kit.ids import new_id
from gpuaas.kit.parts import Parts
from gpuaas.kit.secrets import MasterKey
from tests.support.audit_trail import seal_all, write
from tests.support.written_people import Caller, WrittenPeople, api_for

OLD = "01890000-0000-7000-8000-000000000000"


@pytest.fixture(scope="module")
async def keys() -> SigningKeys:
    return SigningKeys(MasterKey(b"m" * 32))


@pytest.fixture(scope="module")
async def policy() -> MemoryPolicy:
    return MemoryPolicy()


@pytest.fixture(scope="module")
async def call(db: Database, superuser, keys, policy) -> AsyncIterator[Caller]:
    people = WrittenPeople()
    await policy_refresh(db, policy)
    people.add("root", platform=[PlatformRole.ADMIN])
    people.add("auditor", platform=[PlatformRole.AUDITOR])
    people.add("owner", orgs={await people.org(superuser, "theirs"): Role.OWNER})
    await superuser.execute("DELETE FROM orgs")
    async with api_for(db, people, policy, Parts(db, policy, keys)) as caller:
        await write(db, 30)
        await seal_all(db, keys, policy)
        yield caller


async def broken(call: Caller, **query: object) -> dict[str, list[str]]:
    """What does not hold: the invariant's name and whom it names."""
    answer = await call("auditor", "GET", "/ops/verify", **query)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    found = {i["name"]: [row["subject"] for row in i["first"]] for i in told["invariants"] if not i["holds"]}
    assert told["holds"] == (not found)
    assert all(i["count"] >= len(i["first"]) and i["holds"] == (i["count"] == 0) for i in told["invariants"])
    return found


async def test_a_sound_installation_verifies(call: Caller, superuser):
    answer = (await call("root", "GET", "/ops/verify")).json()
    assert answer["holds"], answer
    assert (answer["chain"]["links"], answer["chain"]["checkpoints"]) == (30, 1)
    views = await superuser.fetch("SELECT viewname FROM pg_views WHERE viewname LIKE 'invariant\\_%' ORDER BY 1")
    assert [i["name"] for i in answer["invariants"]] == [view["viewname"] for view in views]
    assert all(len(i["statement"]) > 10 for i in answer["invariants"])


USER = "INSERT INTO users (id, issuer, subject, email, email_verified, name) VALUES ('{u}', 'i', '{u}', 'e', true, 'n')"
ORG = "INSERT INTO orgs (id, name, title) VALUES ('{o}', '{o}', 't')"
OWNER = "INSERT INTO org_members (org_id, user_id, role) VALUES ('{o}', '{u}', 'owner')"
PROJECT = "INSERT INTO projects (id, org_id, name, title) VALUES ('{p}', '{o}', 'p', 't')"
ACCOUNT = (
    "INSERT INTO service_accounts (id, org_id, name, role, allowed_operations, created_by, deleted_at) "
    "VALUES ('{s}', '{o}', 's', 'member', '{{}}', '{u}', now())"
)
BROKEN = [
    (
        "invariant_11_outbox_drains",
        "{e}",
        [
            "INSERT INTO outbox (id, stream, name, version, actor, correlation_id, traceparent, payload, created_at) "
            "VALUES ('{e}', 'PLATFORM', 'x', 1, 'a', 'c', '', '{{}}', now() - interval '61 seconds')"
        ],
    ),
    (
        "invariant_11_inbox_complete",
        "a.b {late}",
        [
            "INSERT INTO outbox (id, stream, name, version, actor, correlation_id, traceparent, payload, created_at, "
            "published_at) VALUES ('{late}', 'PLATFORM', 'x', 1, 'a', 'c', '', '{{}}', now() - interval '5 minutes', "
            "now())",
            "INSERT INTO consumer_progress (consumer, checked_through, complete_through) "
            "VALUES ('a.b', '{old}', '{old}')",
        ],
    ),
    (
        "invariant_12_one_outcome",
        "{u} k",
        [
            "INSERT INTO idempotency_keys (actor_id, key, operation, request_hash, status) "
            "VALUES ('{u}', 'k', 'o', sha256('x'), 200)"
        ],
    ),
    (
        "invariant_14_dead_letters_move",
        "{e}",
        [
            "INSERT INTO dead_letters (id, consumer, event_id, event_name, correlation_id, reason, attempts, state, "
            "state_since) VALUES ('{e}', 'a.b', '{e}', 'x', 'c', 'r', 1, 'replaying', now() - interval '7 minutes')"
        ],
    ),
    (
        "invariant_19_audit_chain",
        None,
        ["UPDATE audit_log SET actor_name = 'mallory' WHERE id = (SELECT audit_id FROM audit_seals WHERE seq = 7)"],
    ),
    (
        "invariant_20_signed_while_valid",
        "checkpoint 30",
        ["UPDATE signing_keys SET signs_from = now() + interval '1 day' WHERE purpose = 'audit'"],
    ),
    (
        "invariant_14_artifacts_move",
        "{e}",
        [
            "INSERT INTO agent_artifacts (id, version, digest, size, state, due_at, created_by) VALUES ('{e}', 'v', "
            "'sha256:' || repeat('a', 64), 1, 'uploading', now() - interval '2 minutes', 'c')"
        ],
    ),
    ("invariant_30_org_has_owner", "{o}", [ORG]),
    ("invariant_31_deleted_orgs_are_empty", "{p}", [ORG, PROJECT, "UPDATE orgs SET deleted_at = now()"]),
    (
        "invariant_32_project_members_belong",
        "{p} {u2}",
        [
            USER,
            ORG,
            OWNER,
            PROJECT,
            "INSERT INTO project_members (org_id, project_id, user_id, role) VALUES ('{o}', '{p}', '{u2}', 'viewer')",
        ],
    ),
    (
        "invariant_33_no_orphaned_keys",
        "{k}",
        [
            USER,
            ORG,
            OWNER,
            ACCOUNT,
            "INSERT INTO service_account_keys (id, org_id, service_account_id, key_hash, hint, "
            "expires_at) VALUES ('{k}', '{o}', '{s}', 'x', 'h', now() + interval '1 day')",
        ],
    ),
    ("invariant_34_months_ahead", None, ["SELECT 1"]),
]


@pytest.mark.parametrize(("name", "subject", "statements"), BROKEN, ids=[name for name, _, _ in BROKEN])
async def test_each_invariant_is_told_when_it_breaks(call: Caller, database, name, subject, statements):
    """Broken inside the database by somebody with all rights; put right again afterwards."""
    ids = {name: str(new_id()) for name in ("u", "u2", "o", "p", "e", "s", "k")} | {"old": OLD}
    connection = await asyncpg.connect(database.superuser)
    ids["late"] = str(await connection.fetchval("SELECT floor_id(now() - interval '5 minutes')"))
    if name == "invariant_34_months_ahead":
        month = await connection.fetchval(
            "SELECT 'inbox_p' || to_char(now() AT TIME ZONE 'UTC' + interval '1 month', 'YYYYMM')"
        )
        statements, undo = [f"ALTER TABLE {month} RENAME TO away"], [f"ALTER TABLE away RENAME TO {month}"]
        subject = month
    else:
        undo = [
            "TRUNCATE users, orgs, outbox, consumer_progress, idempotency_keys, dead_letters, agent_artifacts CASCADE",
            "UPDATE audit_log SET actor_name = 'ada@example.com'",
            "UPDATE signing_keys SET signs_from = now() - interval '1 day'",
        ]
    await connection.execute("SET session_replication_role = replica")
    try:
        for statement in statements:
            await connection.execute(statement.format(**ids))
        found = await broken(call)
    finally:
        for statement in undo:
            await connection.execute(statement)
        await connection.close()
    assert list(found) == [name]
    if subject is not None:
        assert found[name] == [subject.format(**ids)]
    assert await broken(call) == {}


# Those that need a whole fleet or an authority to break are broken in the tests of their own domains.
BROKEN_ELSEWHERE = {
    "invariant_14_tasks_move",
    "invariant_15_task_sequence",
    "invariant_15_one_result",
    "invariant_20_tasks_signed_while_valid",
    "invariant_36_live_nodes_speak",
    "invariant_37_slots_of_nodes",
    "invariant_37_one_gpu_one_node",
    "invariant_20_certificates_signed_while_valid",
    "invariant_35_token_used_once",
    "invariant_01_balance_is_sum",
    "invariant_02_transactions_balance",
    "invariant_02_one_key_one_transaction",
    "invariant_03_floors",
    "invariant_03_reversed_once",
    "invariant_14_holds_end",
    "invariant_14_adjustments_end",
    "invariant_14_payments_move",
    "invariant_16_one_effect",
    "invariant_34_ledger_months_ahead",
    "invariant_14_standings_move",
    "invariant_38_standing_is_balance",
    "invariant_07_billed_is_usable",
    "invariant_07_none_twice",
    "invariant_07_pauses_apart",
    "invariant_08_usage_is_posted",
    "invariant_34_usage_months_ahead",
    "invariant_39_invoices_are_the_ledger",
    "invariant_39_invoices_have_no_gaps",
    "invariant_14_emails_end",
    "invariant_04_one_holder",
    "invariant_05_live_have_holds",
    "invariant_05_deposits_of_live",
    "invariant_07_active_is_metered",
    "invariant_06_active_is_proven",
    "invariant_09_released_is_clean",
    "invariant_10_cleaning_ends",
    "invariant_13_flows_go_on",
    "invariant_14_flows_move",
    "invariant_14_allocations_move",
    "invariant_21_books_are_real",
}


async def test_every_invariant_is_broken_by_a_case_above(superuser):
    views = await superuser.fetch("SELECT viewname FROM pg_views WHERE viewname LIKE 'invariant\\_%'")
    assert {view["viewname"] for view in views} == {name for name, _, _ in BROKEN} | BROKEN_ELSEWHERE


async def test_many_broken_rows_are_counted_and_the_first_told(call: Caller, superuser):
    await superuser.execute(
        "INSERT INTO orgs (id, name, title) SELECT gen_random_uuid(), 'm' || n, 't' FROM generate_series(1, 137) n"
    )
    told = (await call("root", "GET", "/ops/verify")).json()
    await superuser.execute("DELETE FROM orgs")
    found = next(i for i in told["invariants"] if i["name"] == "invariant_30_org_has_owner")
    assert (found["count"], len(found["first"]), told["holds"]) == (137, 20, False)


async def test_the_chain_can_be_verified_from_a_link_on(call: Caller):
    told = (await call("root", "GET", "/ops/verify", chain_from=21)).json()
    assert (told["chain"], told["holds"]) == ({"from_link": 21, "links": 10, "checkpoints": 1}, True)
    assert (await call("root", "GET", "/ops/verify", chain_from=0)).status_code == 422


async def test_verifying_sees_one_instant_while_rows_are_written_and_sealed(call: Caller, db: Database, keys):
    policy = MemoryPolicy()
    stop = asyncio.Event()

    async def busy() -> None:
        while not stop.is_set():
            await write(db, 5)
            await seal_all(db, keys, policy)

    task = asyncio.create_task(busy())
    for _ in range(10):
        assert await broken(call) == {}
    stop.set()
    await task


async def test_a_check_of_everything_takes_no_connection_that_others_wait_for(call: Caller, db: Database):
    async with AsyncExitStack() as held:
        for _ in range(db.sizes["reads"]):
            await held.enter_async_context(db.read(EVERYTHING))
        assert await broken(call) == {}


async def test_everything_is_checked_once_at_a_time(call: Caller, db: Database, superuser):
    async with db.inspection(EVERYTHING):
        assert db.in_use["reads"] == 0
        second = await call("root", "GET", "/ops/verify")
        assert (second.status_code, second.json()["error"]["code"]) == (409, "request_in_progress")
        assert int(second.headers["retry-after"]) > 0
    assert await broken(call) == {}
    with pytest.raises(ZeroDivisionError):
        async with db.inspection(EVERYTHING):
            raise ZeroDivisionError
    assert await broken(call) == {}, "also after one that failed"


@pytest.mark.parametrize("path", ["/ops/verify", "/ops/health", "/internal/stats"])
async def test_only_the_platform_may_ask(call: Caller, path):
    assert (await call("owner", "GET", path)).status_code == 403
    assert (await call("nobody", "GET", path)).status_code == 401
    assert (await call("auditor", "GET", path)).status_code == 200


async def test_health_tells_depths_and_names_what_is_behind(call: Caller, db: Database, policy, superuser):
    await policy_refresh(db, policy)  # nobody follows it here, and what is seconds old is told as behind
    told = (await call("root", "GET", "/ops/health")).json()
    assert told["ok"], told
    assert told["figures"]["migration"] == told["figures"]["migration_head"] == head()
    await superuser.execute(
        "INSERT INTO outbox (id, stream, name, version, actor, correlation_id, traceparent, payload, created_at) "
        "VALUES ($1, 'PLATFORM', 'x', 1, 'a', 'c', '', '{}', now() - interval '5 minutes')",
        new_id(),
    )
    await superuser.execute(
        "INSERT INTO dead_letters (id, consumer, event_id, event_name, correlation_id, reason, attempts, state) "
        "VALUES ($1, 'a.b', $1, 'x', 'c', 'r', 1, 'open')",
        new_id(),
    )
    told = (await call("root", "GET", "/ops/health")).json()
    await superuser.execute("TRUNCATE outbox, dead_letters")
    assert {check["name"] for check in told["checks"] if not check["ok"]} == {"relay", "dead letters"}
    assert told["figures"]["outbox_oldest_seconds"] > 299


async def test_stats_tell_of_this_process(call: Caller):
    told = (await call("root", "GET", "/internal/stats")).json()
    assert told["requests_in_flight"] == 1
    assert told["read_pool"]["size"] == 4
    assert told["resident_bytes"] > 10_000_000
    assert told["policy_revision"] >= 0


async def test_the_views_show_a_tenant_nothing_of_others(db: Database, superuser):
    """They are read with the reader's own rights and sight."""
    from gpuaas.infra.postgres.tx import Sight

    await superuser.execute("INSERT INTO orgs (id, name, title) VALUES ($1, 'w', 't')", new_id())
    async with db.read(Sight(new_id())) as tx:
        for view in await tx.rows("SELECT viewname FROM pg_views WHERE viewname LIKE 'invariant\\_3%'"):
            if view["viewname"] != "invariant_34_months_ahead":
                assert await tx.rows(f"SELECT * FROM {view['viewname']}") == []
    await superuser.execute("DELETE FROM orgs")
