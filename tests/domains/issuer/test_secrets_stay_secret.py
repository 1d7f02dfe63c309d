"""Nothing a person or client proves itself with is in a log line or in the database, whatever happens."""

from types import SimpleNamespace
from typing import Any, cast

import httpx

from gpuaas.domains.issuer.service import account_ensure
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Sight
from tests.support.issuer_site import PASSWORD, Browser, Login, query
from tests.support.live import api_processes, make_settings
from tests.support.servers import DatabaseUrls

__all__ = ["api_processes"]
WRONG = "wrong-quiet-otters-skate"
EMAIL = "ada@example.com"


async def everything_stored(superuser: Any) -> str:
    tables = await superuser.fetch(
        "SELECT oid::regclass::text AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    )
    rows = [await superuser.fetch(f"SELECT t::text AS row FROM {table['name']} t") for table in tables]
    return "\n".join(row["row"] for found in rows for row in found)


async def test_no_secret_is_logged_or_stored_in_success_refusal_or_failure(
    db: Database, database: DatabaseUrls, nats_url: str, superuser: Any, api_processes: Any
) -> None:
    settings = make_settings(database.app, nats_url, log_level="debug")
    api = api_processes(settings)
    api.start()
    await api.ready()
    async with db.transaction(Sight(), "test") as tx:
        await account_ensure(tx, email=EMAIL, password=PASSWORD, name="Ada")
    async with httpx.AsyncClient(timeout=30, verify=False) as http:
        site = cast(Any, SimpleNamespace(issuer=settings.issuer))

        async def post(path: str, **form: str) -> httpx.Response:
            return await http.post(f"{settings.issuer}{path}", data=form)

        site.post = post
        browser, login = Browser(site), Login(site)
        page = await browser.submit(await browser.open(login.url), email=EMAIL, password=WRONG)
        assert page.status_code == 400
        landing = await browser.submit(page, email=EMAIL, password=PASSWORD)
        code = query(landing.headers["location"])["code"]
        tokens = (await login.exchange(landing.headers["location"])).json()
        assert (await login.exchange(landing.headers["location"])).status_code == 400
        device = (await post("/device_authorization", client_id="gpuaas-cli")).json()
        cookies = [cookie.value or "" for cookie in browser.http.cookies.jar]
        await superuser.execute("ALTER TABLE issuer_codes RENAME TO issuer_codes_away")
        broken = await browser.submit(
            await browser.open(Login(site, prompt="login").url), email=EMAIL, password=PASSWORD
        )
        assert broken.status_code == 500
        assert "correlation" in broken.text.lower()
        await superuser.execute("ALTER TABLE issuer_codes_away RENAME TO issuer_codes")
        await browser.http.aclose()
    assert api.terminate() == 0
    secrets = [PASSWORD, WRONG, code, login.verifier, *cookies, device["device_code"]]
    secrets += [tokens[name] for name in ("access_token", "refresh_token", "id_token")]
    stored = await everything_stored(superuser)
    assert '"operation":"oidc_login"' in api.log.replace(" ", "")
    assert len(stored) > 1000
    assert [secret for secret in secrets if secret in api.log] == []
    assert [secret for secret in secrets if secret in stored] == []
