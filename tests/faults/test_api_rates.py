"""Rate lanes under more requests than they let through: strict ones are exact across replicas, the default one is each
replica's own; whoever guesses credentials waits."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import httpx
import pytest

from tests.every.asking import assert_refused, assert_shape
from tests.every.world import Setting, make_setting
from tests.support.live import Mint, make_settings, mint_for, serving
from tests.support.servers import DatabaseUrls, clone

pytestmark = pytest.mark.xdist_group("api_rates")
BURST, PER_MINUTE = 10, 6
ASKED = 40
STRICT, DEFAULT = "/api/v1/platform/users", "/api/v1/orgs"


@dataclass(frozen=True)
class Replicas:
    clients: tuple[httpx.AsyncClient, httpx.AsyncClient]
    mint: Mint
    sql: Any
    setting: Setting

    async def flood(self, path: str, headers: dict[str, str], count: int = ASKED) -> list[httpx.Response]:
        return await asyncio.gather(*(self.clients[n % 2].request("GET", path, headers=headers) for n in range(count)))


@pytest.fixture(scope="module")
async def replicas(template: DatabaseUrls, nats_url: str) -> AsyncIterator[Replicas]:
    """Two of the API on one database, with narrow lanes."""
    async with clone(template) as urls:
        sql = await asyncpg.connect(urls.superuser)
        narrow = {f"rate_limit.{lane}_per_minute": PER_MINUTE for lane in ("default", "admin", "auth")}
        narrow |= {f"rate_limit.{lane}_burst": BURST for lane in ("default", "admin", "auth")}
        narrow["rate_limit.bad_credentials_per_minute"] = BURST
        await sql.executemany(
            "INSERT INTO policy_overrides (key, value, guardrail, set_from, set_by_name, reason) "
            "VALUES ($1, $2::text::jsonb, false, 'global', 'tests', 'narrow lanes')",
            [(key, str(value)) for key, value in narrow.items()],
        )
        first = make_settings(urls.app, nats_url)
        second = make_settings(urls.app, nats_url, master_key=first.master_key, issuer_url="")
        mint = await mint_for(first, urls.app)
        async with serving(first) as one, serving(second) as two:
            yield Replicas((one, two), mint, sql, await make_setting(sql, first.realm))
        await sql.close()


def by_status(answers: list[httpx.Response]) -> Counter[int]:
    return Counter(answer.status_code for answer in answers)


async def test_a_strict_lane_lets_exactly_its_burst_through_across_replicas(replicas: Replicas):
    """One actor, two replicas, all at once: the row decides."""
    await replicas.sql.execute("DELETE FROM rate_marks")
    answers = await replicas.flood("/api/v1/auth/config", {})
    assert by_status(answers) == {200: BURST, 429: ASKED - BURST}
    for answer in answers:
        if answer.status_code == 429:
            assert_refused(answer, 429, "rate_limited")
            assert 1 <= int(answer.headers["retry-after"]) <= 60 // PER_MINUTE * ASKED


async def test_the_default_lane_is_each_replicas_own(replicas: Replicas):
    s = await make_setting(replicas.sql, replicas.setting.issuer)
    headers = {"Authorization": f"Bearer {s.accounts['any_account'].key}"}
    answers = await replicas.flood("/api/v1/auth/session", headers)
    assert by_status(answers) == {200: 2 * BURST, 429: ASKED - 2 * BURST}
    for answer in answers:
        if answer.status_code == 429:
            assert_refused(answer, 429, "rate_limited")


async def test_one_actors_lane_is_not_anothers(replicas: Replicas):
    for _ in range(2):
        s = await make_setting(replicas.sql, replicas.setting.issuer)
        headers = {"Authorization": f"Bearer {s.accounts['any_account'].key}"}
        answers = [await replicas.clients[0].get("/api/v1/auth/session", headers=headers) for _ in range(BURST + 1)]
        assert by_status(answers) == {200: BURST, 429: 1}


async def test_a_place_comes_back_with_time(replicas: Replicas):
    """The lane's row moved back by one gap lets one more through, and only one."""
    await replicas.sql.execute(
        "INSERT INTO rate_marks VALUES ('auth', '127.0.0.1', clock_timestamp() + $1 * interval '1 second') "
        "ON CONFLICT (lane, subject) DO UPDATE SET next_at = excluded.next_at",
        60.0 / PER_MINUTE * (BURST - 1) - 1,
    )
    answers = await replicas.flood("/api/v1/auth/config", {}, 6)
    assert by_status(answers) == {200: 1, 429: 5}


async def test_an_address_that_guesses_waits(replicas: Replicas):
    """Runs last: afterwards this address waits, whoever it is."""
    guesses = [
        await replicas.clients[0].get("/api/v1/users/me", headers={"Authorization": f"Bearer gpuaas_sk_guess{n}"})
        for n in range(BURST + 5)
    ]
    assert by_status(guesses) == {401: BURST, 429: 5}
    for answer in guesses:
        assert_shape(answer)
    known = {"Authorization": f"Bearer {replicas.mint(replicas.setting.people['owner'])}"}
    assert_refused(await replicas.clients[0].get("/api/v1/users/me", headers=known), 429, "rate_limited")
