"""Logging in as a person does: in the browser and with a device code, on the live API and its issuer."""

import asyncio
import json
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx

from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.support.live import LiveApi
from tests.support.terminal import SECONDS, Browser, Person, Terminal, told_address

People = Callable[..., Awaitable[Person]]


def session_of(terminal: Terminal) -> Path:
    [found] = (terminal.folder / "sessions").glob("*.json")
    return found


def expire(terminal: Terminal) -> dict[str, object]:
    """Let the access token be past its time; what was stored is returned."""
    file = session_of(terminal)
    stored: dict[str, object] = json.loads(file.read_bytes())
    file.write_text(json.dumps(stored | {"expires_at": clock.epoch_s() - 1}))
    return stored


async def test_a_person_logs_in_with_the_browser_and_is_known(terminal: Terminal, live_api: LiveApi, person: People):
    somebody = await person()
    ran = await terminal.log_in(somebody, "--url", live_api.url)
    assert ran.code == 0, ran.said
    assert f"Logged in to {live_api.url} as {somebody.email}." in ran.out
    assert somebody.email in await terminal.good("whoami")
    assert (await terminal.run("whoami", "-o", "json")).json["email"] == somebody.email


async def test_what_a_login_stores_is_its_owners_alone(terminal: Terminal, live_api: LiveApi, person: People):
    await terminal.log_in(await person(), "--url", live_api.url)
    for path in (terminal.folder, *terminal.folder.rglob("*")):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path
    session_of(terminal).chmod(0o640)
    refused = await terminal.run("whoami")
    assert refused.code == 1
    assert "can be read by others" in refused.err
    assert "chmod 600" in refused.err


async def test_a_person_logs_in_with_a_device_code(terminal: Terminal, live_api: LiveApi, person: People):
    somebody = await person()
    process = await terminal.start("login", "--device", "--url", live_api.url)
    address = await told_address(process, r"filled in:\s+(http://\S+)\s")
    page = await Browser().log_in(address.split()[-1], somebody)
    assert page.status_code == 200
    out, err = await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode == 0, err.decode()
    assert somebody.email in out.decode()
    assert somebody.email in await terminal.good("whoami")


async def test_an_answer_with_a_foreign_state_does_not_end_the_wait(
    terminal: Terminal, live_api: LiveApi, person: People
):
    somebody = await person()
    process = await terminal.start("login", "--no-browser", "--url", live_api.url)
    address = await told_address(process, r"http://\S+/authorize\?\S+")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    async with httpx.AsyncClient() as stranger:
        forged = await stranger.get(asked["redirect_uri"], params={"code": "stolen", "state": "guessed"})
        assert forged.status_code == 404
    assert asked["code_challenge_method"] == "S256"
    await Browser().log_in(address, somebody)
    out, err = await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode == 0, err.decode()
    assert somebody.email in out.decode()


async def test_an_answer_from_another_issuer_is_refused(terminal: Terminal, live_api: LiveApi):
    process = await terminal.start("login", "--no-browser", "--url", live_api.url)
    address = await told_address(process, r"http://\S+/authorize\?\S+")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    async with httpx.AsyncClient() as mixed_up:
        answer = {"code": "c", "state": asked["state"], "iss": "https://evil.example"}
        await mixed_up.get(asked["redirect_uri"], params=answer)
    _, err = await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode == 1
    assert "another issuer" in err.decode()
    assert not (terminal.folder / "sessions").exists()


async def test_a_login_refused_in_the_browser_is_told_in_the_terminal(terminal: Terminal, live_api: LiveApi):
    process = await terminal.start("login", "--no-browser", "--url", live_api.url)
    address = await told_address(process, r"http://\S+/authorize\?\S+")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    issuer = f"{live_api.url}/oidc"
    said = {"error": "access_denied", "error_description": "not \x1b[31mtoday", "state": asked["state"], "iss": issuer}
    async with httpx.AsyncClient() as refused:
        await refused.get(asked["redirect_uri"], params=said)
    _, err = await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode == 1
    assert "error: not \\x1b[31mtoday" in err.decode()


async def test_an_expired_access_token_is_renewed_without_a_word(newcomer: Terminal):
    before = expire(newcomer)
    ran = await newcomer.run("whoami")
    assert (ran.code, ran.err) == (0, "")
    after = json.loads(session_of(newcomer).read_bytes())
    assert after["access_token"] != before["access_token"]
    assert after["refresh_token"] != before["refresh_token"]


async def test_a_token_the_api_calls_invalid_is_renewed_once(newcomer: Terminal):
    file = session_of(newcomer)
    stored = json.loads(file.read_bytes())
    file.write_text(json.dumps(stored | {"access_token": stored["access_token"][:-8] + "AAAAAAAA"}))
    assert (await newcomer.run("whoami")).code == 0


async def test_ten_commands_at_once_renew_once_and_all_succeed(newcomer: Terminal):
    expire(newcomer)
    ran = await asyncio.gather(*(newcomer.run("orgs", "list", "--output", "json") for _ in range(10)))
    assert [one.code for one in ran] == [0] * 10, [one.err for one in ran]
    expire(newcomer)
    assert (await newcomer.run("whoami")).code == 0, "the family of the refresh token lives on"


async def test_a_session_that_has_ended_says_so_and_is_forgotten(newcomer: Terminal):
    stored = expire(newcomer)
    assert (await newcomer.run("whoami")).code == 0
    file = session_of(newcomer)
    file.write_text(json.dumps(stored | {"expires_at": 1, "refresh_token": "gpuaas_rt_unknown"}))
    ended = await newcomer.run("whoami")
    assert ended.code == 3
    assert "Your session has ended." in ended.err
    assert "gpuaas login" in ended.err
    assert not file.exists()


async def test_logout_ends_the_session_here_at_the_api_and_at_the_issuer(newcomer: Terminal, live_api: LiveApi):
    stored = json.loads(session_of(newcomer).read_bytes())
    assert "Logged out" in await newcomer.good("logout")
    assert (await newcomer.run("whoami")).code == 3
    await asyncio.sleep(1)  # what is promised: refused within a second
    answer = await live_api.client.get(
        "/api/v1/users/me", headers={"authorization": f"Bearer {stored['access_token']}"}
    )
    assert answer.status_code == 401
    form = {"grant_type": "refresh_token", "client_id": "gpuaas-cli", "refresh_token": stored["refresh_token"]}
    assert (await live_api.client.post("/oidc/token", data=form)).json()["error"] == "invalid_grant"
    assert (await newcomer.run("logout")).code == 3


async def test_a_second_login_keeps_what_was_chosen(newcomer: Terminal, live_api: LiveApi, person: People):
    await newcomer.good("orgs", "create", name := f"acme-{new_id().hex[-12:]}")
    await newcomer.good("use", name)
    chosen = (await newcomer.run("context", "show", "-o", "json")).json["org"]
    assert chosen["name"] == name
    await newcomer.log_in(await person(), "--url", live_api.url)
    assert (await newcomer.run("context", "show", "-o", "json")).json["org"] == chosen
    await newcomer.log_in(await person(), "--url", live_api.url, "--name", "other")
    listed = (await newcomer.run("context", "list", "-o", "json")).json["items"]
    assert [(one["name"], one["current"]) for one in listed if one["current"]] == [("other", True)]
    await newcomer.good("context", "delete", "other", "--yes")
    assert (await newcomer.run("whoami")).code == 2
