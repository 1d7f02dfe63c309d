"""What the issuer says about itself and about people."""

import pytest

from tests.support.issuer_site import Account, Site


async def test_the_discovery_document_names_only_what_answers(site: Site) -> None:
    told = (await site.http.get(f"{site.issuer}/.well-known/openid-configuration")).json()
    assert told["issuer"] == site.issuer
    assert told["code_challenge_methods_supported"] == ["S256"]
    assert told["response_types_supported"] == ["code"]
    assert told["authorization_response_iss_parameter_supported"] is True
    endpoints = [value for name, value in told.items() if name.endswith("_endpoint") or name == "jwks_uri"]
    assert len(endpoints) == 7
    for endpoint in endpoints:
        answers = [await site.http.get(endpoint), await site.http.post(endpoint, data={"x": "y"})]
        assert any(answer.status_code not in (404, 405) for answer in answers), endpoint
        assert all(answer.status_code < 500 for answer in answers), endpoint


async def test_userinfo_tells_the_bearer_who_he_is_by_get_and_post(site: Site, ada: Account) -> None:
    token = (await site.log_in(ada))["access_token"]
    wanted = {"sub": ada.subject, "email": ada.email, "email_verified": True, "name": "Ada"}
    bearer = {"authorization": f"Bearer {token}"}
    assert (await site.http.get(f"{site.issuer}/userinfo", headers=bearer)).json() == wanted
    assert (await site.http.post(f"{site.issuer}/userinfo", data={"a": "b"}, headers=bearer)).json() == wanted
    assert (await site.http.post(f"{site.issuer}/userinfo", data={"access_token": token})).json() == wanted


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer x", "Bearer " + "x" * 8000, "Basic YTpi", "Bearer a.b.c"])
async def test_userinfo_refuses_what_is_no_token_of_ours(site: Site, header: str | None) -> None:
    answer = await site.http.get(f"{site.issuer}/userinfo", headers={"authorization": header} if header else {})
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token")
    assert answer.headers["www-authenticate"].startswith("Bearer ")


async def test_an_id_token_does_not_pass_for_an_access_token(site: Site, ada: Account) -> None:
    tokens = await site.log_in(ada)
    answer = await site.http.get(f"{site.issuer}/userinfo", headers={"authorization": f"Bearer {tokens['id_token']}"})
    assert answer.status_code == 401
    assert not await site.accepted(tokens["id_token"])


async def test_an_access_token_does_not_outlive_its_policy(site: Site, ada: Account) -> None:
    site.policy.values["issuer.access_token_seconds"] = 60
    try:
        assert (await site.log_in(ada))["expires_in"] == 60
    finally:
        del site.policy.values["issuer.access_token_seconds"]
