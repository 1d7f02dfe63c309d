"""What the scrubber takes out of running text, and what it leaves."""

import time

import pytest

from gpuaas.kit.log import scrub_text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("login with password=hunter2 failed", "login with password=[scrubbed] failed"),
        ("PASSWORD = hunter2", "PASSWORD = [scrubbed]"),
        ("DB_PASSWORD='two words' here", "DB_PASSWORD='[scrubbed]' here"),
        ('passphrase="a \\" quote" next', 'passphrase="[scrubbed]" next'),
        ("POST /x?client_secret=abc%20d&state=1", "POST /x?client_secret=[scrubbed]&state=1"),
        ("access_token=abc; refresh_token=def, n=1", "access_token=[scrubbed]; refresh_token=[scrubbed], n=1"),
        ("secret=p(a)s<s>[w]{o}rd!", "secret=[scrubbed]"),
        ('{"password": "hunter2", "name": "ada"}', '{"password": "[scrubbed]", "name": "ada"}'),
        ("{'api_key':'k-1', 'n': 2}", "{'api_key':'[scrubbed]', 'n': 2}"),
        ('{"token": 123456, "n": 1}', '{"token": [scrubbed], "n": 1}'),
        (r"{\"password\": \"hunter2\", \"n\": 1}", r"{\"password\": \"[scrubbed]\", \"n\": 1}"),
        ('cut off: {"secret": "hunt', 'cut off: {"secret": "[scrubbed]'),
        ("token=Bearer abcdefghijkl", "token=[scrubbed]"),
    ],
)
def test_the_value_of_a_secrets_name_goes_and_the_rest_stays(text: str, clean: str) -> None:
    assert scrub_text(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "the password is wrong",
        "Enter your password: it has at least 12 characters",
        "token_count=5 tokens=7 token_type=bearer",
        "grant_type=refresh_token&state=1",
        "token=null secret=None password=true",
        '{"token": null, "secret": ""}',
        "if token == expected",
        "password=",
        "Key (token_hash)=(x) already exists.",
        "idempotency_key=abc key_id=k1",
        "secret=\\x0a",
    ],
)
def test_what_only_speaks_of_secrets_stays(text: str) -> None:
    assert scrub_text(text) == text


@pytest.mark.parametrize("piece", ["token", "token=", 'token="', "token\t", "a-", 'token=\\"', "'token':"])
def test_no_text_keeps_the_scrubber_busy(piece: str) -> None:
    started = time.perf_counter()
    scrub_text(piece * (16_000 // len(piece)))
    assert time.perf_counter() - started < 0.5
