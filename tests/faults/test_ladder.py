"""The ladder at an empty balance with every program real: api, relay, worker and a simulated machine. Nobody but the
worker's own timers and reactions does anything."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from gpuaas.contracts.simulation import Do
from gpuaas.domains.allocations.models import login_of
from gpuaas.infra.hosts.simulated import accounts as shells
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.support.ground import SSH_KEY
from tests.support.money import MICROS
from tests.support.people import refusal
from tests.support.servers import DatabaseUrls
from tests.support.site import SECONDS, Site, site_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ladder")]
TAKEN = """
SELECT transaction_id FROM (SELECT set_config('app.org_id', '*', false)) AS seen,
LATERAL ledger_post('refund', $1, $2, 'USD', '{tenant,refunds}', ARRAY[-$3::bigint, $3::bigint], NULL, 'a test', NULL,
                    'test', 'test')
"""
EARLIER = """
UPDATE meters SET opened_at = opened_at - make_interval(hours => $2),
    billed_until = billed_until - make_interval(hours => $2) WHERE subject_id = $1 AND billed_number = 0
RETURNING id
"""
BALANCE = """
SELECT (ledger_head(id)).balance_micros AS micros FROM ledger_accounts
WHERE org_id = $1 AND kind = 'tenant' AND currency = 'USD'
"""
LATER = """
UPDATE standings SET state_since = state_since - make_interval(hours => $2),
    due_at = due_at - make_interval(hours => $2), counting_since = counting_since - make_interval(hours => $2)
WHERE org_id = $1
"""


@pytest.fixture(scope="module")
async def site(database: DatabaseUrls, nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with site_of(database, nats_url, tmp_path_factory.mktemp("site")) as made:
        await made.fleet(1)
        yield made


async def rung(site: Site, org_id: UUID, wanted: str) -> None:
    until = clock.monotonic() + SECONDS
    while (found := await site.sql("SELECT state FROM standings WHERE org_id = $1", org_id)) != [(wanted,)]:
        assert clock.monotonic() < until, f"it is not {wanted}: {found}"
        await asyncio.sleep(0.2)


async def refused(site: Site) -> tuple[int, str]:
    body = {"sku_id": site.sku_id, "gpu_count": 1, "ssh_keys": [SSH_KEY]}
    return refusal(await site.ask("POST", site.project, body))


async def spent(site: Site) -> tuple[str, UUID]:
    """An active allocation that has used 7.20 of the 5.00 there are: it has run for two hours, as its meter says."""
    while True:
        allocation_id = await site.allocate()
        await site.until(allocation_id, "active")
        if await site.sql(EARLIER, UUID(allocation_id), 2):
            break
        await site.release(allocation_id)  # it was charged for its first second already
    [row] = await site.sql("SELECT org_id FROM allocations WHERE id = $1", UUID(allocation_id))
    [balance] = await site.sql(BALANCE, row["org_id"])
    await site.sql(TAKEN, new_id().hex, row["org_id"], balance["micros"] - 5 * MICROS)
    await rung(site, row["org_id"], "empty")
    return allocation_id, row["org_id"]


async def test_stopped_and_started_by_a_top_up(site: Site) -> None:
    allocation_id, org_id = await spent(site)
    login = login_of(UUID(allocation_id))
    [home] = (site.folder / "fleet").rglob(f"homes/{login}")
    (home / "kept").write_text("mine")
    await site.fault(do=Do.RUN, login=login, seconds=600)
    assert len(shells.processes_of(home)) == 1
    assert (await site.show(allocation_id))["state"] == "active"
    assert await refused(site) == (409, "balance_empty")
    await site.sql(LATER, org_id, 1)
    stopped = await site.until(allocation_id, "stopped")
    assert (stopped["stop_reason"], stopped["charging"]) == ("balance", False)
    assert shells.processes_of(home) == []
    assert (home / ".ssh" / "authorized_keys").read_text() == ""

    await site.plane.fund(str(org_id))
    started = await site.until(allocation_id, "active")
    assert (started["stop_reason"], started["charging"]) == (None, True)
    assert (home / "kept").read_text() == "mine"
    await site.fault(do=Do.RUN, login=login, seconds=600)
    await site.release(allocation_id)
    await site.until(allocation_id, "released")
    await site.sound()


async def test_released_with_a_certificate_if_no_money_comes(site: Site) -> None:
    allocation_id, org_id = await spent(site)
    [home] = (site.folder / "fleet").rglob(f"homes/{login_of(UUID(allocation_id))}")
    await site.sql(LATER, org_id, 1)
    await site.until(allocation_id, "stopped")
    assert home.exists()
    await site.sql(LATER, org_id, 25)
    ended = await site.until(allocation_id, "released")
    assert (ended["release_reason"], len(ended["certificate_ids"])) == ("balance_empty", 1)
    assert not home.exists()
    await site.plane.fund(str(org_id))
    await rung(site, org_id, "good")
    await site.sound()
