"""Service accounts exchange their key for a token (client credentials)."""

import base64
from typing import Any

from joserfc import jwt
from joserfc.jwk import KeySet

from gpuaas.kit.ids import new_id
from tests.support.issuer_site import Robot, Site


async def test_a_key_is_exchanged_for_a_token_the_api_takes(site: Site, robot: Robot) -> None:
    answer = await site.token("client_credentials", str(robot.id), client_secret=robot.key)
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"access_token", "token_type", "expires_in"}
    keys = KeySet.import_key_set((await site.http.get(f"{site.issuer}/jwks")).json())
    said = jwt.decode(answer.json()["access_token"], keys, algorithms=["ES256"]).claims
    assert said["sub"] == said["client_id"] == str(robot.id)
    actor = await site.authority.actor(answer.json()["access_token"])
    assert (actor.id, actor.kind) == (robot.id, "service_account")


async def test_the_key_may_also_come_as_http_basic(site: Site, robot: Robot) -> None:
    basic = base64.b64encode(f"{robot.id}:{robot.key}".encode()).decode()
    answer = await site.http.post(
        f"{site.issuer}/token", data={"grant_type": "client_credentials"}, headers={"authorization": f"Basic {basic}"}
    )
    assert answer.status_code == 200


async def test_the_token_dies_with_its_key(site: Site, robot: Robot, superuser: Any) -> None:
    token = (await site.token("client_credentials", str(robot.id), client_secret=robot.key)).json()["access_token"]
    assert await site.accepted(token)
    await superuser.execute("UPDATE service_account_keys SET revoked_at = now() WHERE id = $1", robot.key_id)
    assert not await site.accepted(token)
    answer = await site.token("client_credentials", str(robot.id), client_secret=robot.key)
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


async def test_a_key_is_its_accounts_alone(site: Site, robot: Robot) -> None:
    for client_id, secret in ((str(new_id()), robot.key), (str(robot.id), robot.key + "x"), (str(robot.id), "")):
        answer = await site.token("client_credentials", client_id, client_secret=secret)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
        assert answer.headers["www-authenticate"].startswith("Basic")


async def test_a_service_account_revokes_its_own_token(site: Site, robot: Robot) -> None:
    token = (await site.token("client_credentials", str(robot.id), client_secret=robot.key)).json()["access_token"]
    bare = await site.post("/revoke", client_id=str(robot.id), token=token)
    assert bare.status_code == 401
    assert await site.accepted(token)
    answer = await site.post("/revoke", client_id=str(robot.id), client_secret=robot.key, token=token)
    assert answer.status_code == 200
    assert not await site.accepted(token)


async def test_a_machine_has_no_userinfo(site: Site, robot: Robot) -> None:
    token = (await site.token("client_credentials", str(robot.id), client_secret=robot.key)).json()["access_token"]
    answer = await site.http.get(f"{site.issuer}/userinfo", headers={"authorization": f"Bearer {token}"})
    assert (answer.status_code, answer.json()["error"]) == (403, "insufficient_scope")
