"""Authorization requests that are refused: to the client where that is safe, to the person where it is not."""

import pytest

from tests.support.issuer_site import Account, Form, Login, Site, landed, query

TO_CLIENT = [
    ({"response_type": ""}, "invalid_request"),
    ({"response_type": "token"}, "unsupported_response_type"),
    ({"response_type": "code id_token"}, "unsupported_response_type"),
    ({"response_mode": "fragment"}, "invalid_request"),
    ({"scope": ""}, "invalid_scope"),
    ({"scope": "email"}, "invalid_scope"),
    ({"scope": "openid  email"}, "invalid_scope"),
    ({"scope": "openid " + "x" * 600}, "invalid_scope"),
    ({"code_challenge": ""}, "invalid_request"),
    ({"code_challenge": "short"}, "invalid_request"),
    ({"code_challenge": "a" * 43 + "\n"}, "invalid_request"),
    ({"code_challenge_method": ""}, "invalid_request"),
    ({"code_challenge_method": "plain"}, "invalid_request"),
    ({"prompt": "none login"}, "invalid_request"),
    ({"prompt": "dance"}, "invalid_request"),
    ({"max_age": "soon"}, "invalid_request"),
    ({"max_age": "-1"}, "invalid_request"),
    ({"nonce": "n" * 600}, "invalid_request"),
    ({"request": "eyJ"}, "request_not_supported"),
    ({"request_uri": "https://elsewhere.example"}, "request_uri_not_supported"),
    ({"registration": "{}"}, "registration_not_supported"),
]
TO_PERSON = [
    {"client_id": ""},
    {"client_id": "somebody-else"},
    {"redirect_uri": ""},
    {"redirect_uri": "https://evil.example/callback"},
    {"redirect_uri": "http://127.0.0.1:45678/callback/"},
    {"redirect_uri": "http://127.0.0.1:45678/callback?next=x"},
    {"redirect_uri": "http://127.0.0.1:45678/callback#x"},
    {"redirect_uri": "http://127.0.0.1:45678/../callback"},
    {"redirect_uri": "http://127.0.0.1:45678@evil.example/callback"},
    {"redirect_uri": "http://127.0.0.1:99999/callback"},
    {"redirect_uri": "http://127.0.0.1.evil.example:45678/callback"},
    {"redirect_uri": "http://localhost:45678/callback"},
    {"redirect_uri": "https://127.0.0.1:45678/callback"},
    {"redirect_uri": "HTTP://127.0.0.1:45678/callback"},
    {"redirect_uri": "http://127.0.0.1:45678/callback\r\nset-cookie: x=y"},
    {"redirect_uri": "javascript:alert(1)"},
    {"redirect_uri": "http://127.0.0.1:45678/callback" + "x" * 600},
]


@pytest.mark.parametrize(("wanted", "error"), TO_CLIENT, ids=str)
async def test_a_flawed_request_of_a_known_client_is_refused_at_its_own_address(
    site: Site, wanted: dict[str, str], error: str
) -> None:
    login = Login(site, **wanted)
    answer = query(landed(await site.browser().open(login.url)))
    assert answer["error"] == error
    assert answer["state"] == login.sent["state"]
    assert answer["iss"] == site.issuer
    assert "code" not in answer


@pytest.mark.parametrize("wanted", TO_PERSON, ids=str)
async def test_an_unknown_client_or_address_is_told_to_the_person_alone(site: Site, wanted: dict[str, str]) -> None:
    answer = await site.browser().open(Login(site, **wanted).url)
    assert answer.status_code == 400
    assert "location" not in answer.headers
    assert answer.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("wanted", TO_PERSON[1:6], ids=str)
async def test_a_login_form_aimed_at_another_address_gives_no_code(
    site: Site, ada: Account, wanted: dict[str, str]
) -> None:
    """The form's own address is changed after a genuine page was shown."""
    browser = site.browser()
    page = await browser.open(Login(site).url)
    bent = Login(site, **wanted).url.replace("/authorize?", "/login?")
    fields = Form.on(page).fields | {"email": ada.email, "password": ada.password}
    answer = await browser.http.post(bent, data=fields)
    assert answer.status_code == 400
    assert "location" not in answer.headers


async def test_any_port_of_a_loopback_address_is_the_command_lines_own(site: Site, ada: Account) -> None:
    browser = site.browser()
    for uri in ("http://127.0.0.1:1/callback", "http://127.0.0.1:65535/callback", "http://[::1]:8931/callback"):
        login = Login(site, redirect_uri=uri)
        assert (await browser.log_in(login, ada)).startswith(f"{uri}?code=")


async def test_a_parameter_given_twice_is_refused(site: Site) -> None:
    answer = await site.http.get(Login(site).url + "&state=other")
    assert answer.status_code >= 400
    assert "location" not in answer.headers
