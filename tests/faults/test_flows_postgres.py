"""PostgreSQL restarted and killed under twenty allocations that are being made ready and given back: each ends, nothing
is held by nobody, and the machines have nothing left that the books do not know."""

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest

from gpuaas.contracts.simulation import Do
from gpuaas.infra.embedded.home import make_temporary_directory
from gpuaas.infra.embedded.postgres import EmbeddedPostgres
from gpuaas.infra.postgres import migrate
from tests.support.servers import DatabaseUrls
from tests.support.site import ENDED, Site, site_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flows_postgres")]
TENANTS = 20
MACHINES = 3


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[EmbeddedPostgres]:
    """Durable: what it acknowledged must be there after a kill."""
    home = make_temporary_directory()
    server = EmbeddedPostgres(home, durable=True)
    server.start()
    yield server
    server.destroy()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
async def site(
    own_postgres: EmbeddedPostgres, nats_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Site]:
    found = own_postgres.urls
    urls = DatabaseUrls(found.app, found.owner, found.superuser)
    await asyncio.to_thread(migrate.upgrade, urls.owner, app_role="gpuaas_app")
    async with site_of(urls, nats_url, tmp_path_factory.mktemp("site")) as made:
        await made.fleet(MACHINES)
        yield made


async def tenant(site: Site, over: asyncio.Event) -> list[tuple[str, str]]:
    """One allocation after the other; what became of each first, and in the end."""
    ends: list[tuple[str, str]] = []
    while not (ends and over.is_set()):
        allocation_id = await site.allocate(if_full="queue")
        first = last = (await site.until(allocation_id, "active", *ENDED))["state"]
        if first == "active":
            await site.release(allocation_id)
            last = (await site.until(allocation_id, *ENDED))["state"]
        ends.append((first, last))
    return ends


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_postgres_goes_away_under_twenty_allocations_and_each_of_them_ends(
    site: Site, own_postgres: EmbeddedPostgres, how: str
) -> None:
    await site.sellable(8 * MACHINES)
    over = asyncio.Event()
    tenants = [asyncio.create_task(tenant(site, over)) for _ in range(TENANTS)]
    for _ in range(2):
        await asyncio.sleep(1.0)
        await asyncio.to_thread(getattr(own_postgres, how))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(own_postgres.start)
    over.set()
    ends = Counter(end for ended in await asyncio.gather(*tenants) for end in ended)
    # A machine that nobody heard of for long enough is no longer sold: then it fails, and cleanly.
    assert set(ends) <= {("active", "released"), ("failed", "failed")}, ends
    assert ends["active", "released"] >= TENANTS / 2, ends
    assert await site.sql("SELECT id FROM slot_holds WHERE ended_at IS NULL") == []
    assert await site.sql("SELECT id FROM flow_runs WHERE ended_at IS NULL") == []
    status = await site.fault(do=Do.STATUS)
    assert [node.accounts for node in status.nodes] == [0] * MACHINES
    await site.sound()
    await site.sellable(8 * MACHINES)
