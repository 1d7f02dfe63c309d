"""Whatever comes in place of a request is refused in the provider's shape; the provider goes on, and starts only where
it may."""

import os
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.support.payment_provider import SECRET_KEY, DemoProvider, wanted

FORM = {"content-type": "application/x-www-form-urlencoded"}
KEY = {"authorization": f"Bearer {SECRET_KEY}"}


@pytest.mark.parametrize(
    "body",
    [
        b"email=%ff%fe",
        b"email=%00",
        b"email=a&email=b",
        b"email[a]=b&email=c",
        b"email=c&email[a]=b",
        b"metadata[a][b]=c",
        b"metadata" + b"[a]" * 50 + b"=c",
        b"a" * 300 + b"=1",
        b"email=" + b"x" * 6000,
        b"&".join(b"metadata[k%d]=1" % n for n in range(60)),
        b"&".join(b"k%d=1" % n for n in range(500)),
        b"=&=&=",
        b"[]=x",
        b"metadata[=x",
        b"metadata[a]]=x",
        "email=ü".encode(),
    ],
)
def test_a_body_that_makes_no_sense_is_refused(provider: DemoProvider, body):
    answer = httpx.post(f"{provider.url}/v1/customers", content=body, headers=KEY | FORM)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("kind", ["application/json", "text/plain", ""])
def test_a_body_of_another_type_is_refused(provider: DemoProvider, kind):
    answer = httpx.post(f"{provider.url}/v1/customers", content=b'{"email": 1}', headers=KEY | {"content-type": kind})
    assert answer.status_code == 400
    assert "form" in answer.json()["error"]["message"]


def test_a_huge_body_is_not_read(provider: DemoProvider):
    answer = httpx.post(f"{provider.url}/v1/customers", content=b"x" * 200_000, headers=KEY | FORM)
    assert answer.status_code == 413
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer x", f"Bearer {SECRET_KEY}x", SECRET_KEY, "Basic !!!", "Basic eA==", "Bearer \u00fc"],
)
def test_nobody_is_let_in_without_the_key(provider: DemoProvider, authorization):
    headers = {"authorization": authorization.encode("latin-1")} if authorization else {}
    for method, path in (("GET", "/v1/customers"), ("POST", "/v1/customers"), ("GET", "/v1/nothing")):
        answer = httpx.request(method, provider.url + path, headers=headers)
        assert answer.status_code == 401
        assert SECRET_KEY not in answer.text


def test_a_key_by_basic_authorization_is_taken_as_well(provider: DemoProvider):
    assert httpx.get(f"{provider.url}/v1/customers", auth=(SECRET_KEY, "")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/nothing"),
        ("POST", "/v1/nothing"),
        ("DELETE", "/v1/customers/cus_x"),
        ("PUT", "/v1/customers"),
        ("GET", "/v1/checkout/sessions/cs_x/y"),
        ("GET", "/v1/customers/cus_nobody"),
        ("GET", "/v1/customers/"),
        ("POST", "/v1/checkout/sessions/cs_nobody/expire"),
    ],
)
def test_what_is_not_there_is_missing(provider: DemoProvider, method, path):
    answer = httpx.request(method, provider.url + path, headers=KEY)
    assert answer.status_code == 404
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=101",
        "limit=x",
        "created[gte]=x",
        "created[ne]=1",
        "starting_after=",
        "foo=1",
        "created[gte]=1&created=2",
    ],
)
def test_a_list_is_asked_for_in_bounds(provider: DemoProvider, query):
    assert httpx.get(f"{provider.url}/v1/refunds?{query}", headers=KEY).status_code == 400


def test_one_kind_of_thing_is_not_read_as_another(provider: DemoProvider, library):
    made = library.v1.checkout.sessions.create(wanted())
    assert httpx.get(f"{provider.url}/v1/customers/{made.id}", headers=KEY).status_code == 404
    assert "_lines" not in httpx.get(f"{provider.url}/v1/checkout/sessions/{made.id}", headers=KEY).text


def test_an_idempotency_key_is_bounded(provider: DemoProvider):
    answer = httpx.post(f"{provider.url}/v1/customers", headers=KEY | {"idempotency-key": "k" * 256})
    assert answer.status_code == 400


def test_two_processes_never_share_a_file(provider: DemoProvider):
    ended = start_with(provider, provider.environment)
    assert ended.returncode == 2
    assert "in use by another process" in ended.stderr


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"GPUAAS_ENVIRONMENT": "production"}, "in production, use a real provider"),
        ({"GPUAAS_ENVIRONMENT": ""}, "in production, use a real provider"),
        ({"GPUAAS_STRIPE_SECRET_KEY": "sk_live_abcdefghijklmnop"}, "GPUAAS_STRIPE_SECRET_KEY must be a test key"),
        ({"GPUAAS_STRIPE_SECRET_KEY": ""}, "GPUAAS_STRIPE_SECRET_KEY must be a test key"),
        ({"GPUAAS_STRIPE_WEBHOOK_SECRETS": ""}, "GPUAAS_STRIPE_WEBHOOK_SECRETS must be set"),
        ({"GPUAAS_DEMO_PAYMENTS_CONTROL_KEY": "short"}, "GPUAAS_DEMO_PAYMENTS_CONTROL_KEY must be a long key"),
    ],
)
def test_it_starts_only_as_a_demo_with_keys_of_a_demo(provider: DemoProvider, tmp_path: Path, changed, said):
    ended = start_with(provider, provider.environment | changed, tmp_path)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_its_file_is_its_owners_alone(provider: DemoProvider):
    assert (provider.folder / "provider.jsonl").stat().st_mode & 0o077 == 0


def start_with(
    provider: DemoProvider, environment: dict[str, str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    argv = [str(folder) if folder and one == str(provider.folder) else one for one in provider.argv]
    return subprocess.run(argv, check=False, env=os.environ | environment, capture_output=True, text=True, timeout=30)
