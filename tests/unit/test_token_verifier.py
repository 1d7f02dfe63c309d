"""Verification of access tokens and the memory of an issuer's keys, without a database."""

import asyncio
import base64
import hmac
import json
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from gpuaas.contracts.error_codes import Code
from gpuaas.infra.oidc import keys as key_cache
from gpuaas.infra.oidc.keys import usable_keys
from gpuaas.kit import clock
from gpuaas.kit.errors import Unauthenticated, Unavailable
from tests.support.tokens import IssuerOfTests


@pytest.fixture
def issuer():
    return IssuerOfTests()


async def reason(verifier, token) -> str:
    with pytest.raises(Unauthenticated) as refused:
        await verifier.access_token(token)
    return refused.value.log or refused.value.code


@pytest.mark.parametrize(("alg", "kind"), [("ES256", ECKey), ("RS256", RSAKey), ("PS256", RSAKey)])
async def test_each_accepted_algorithm_verifies(issuer, alg, kind):
    key = issuer.add_key(kind)
    claims = await issuer.verifier().access_token(issuer.token("ada", alg=alg, key=key))
    assert (claims.subject, claims.email, claims.email_verified) == ("ada", "ada@example.com", True)


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
async def test_a_token_signed_with_eddsa_verifies(issuer):
    key = issuer.add_key(OKPKey)
    assert (await issuer.verifier().access_token(issuer.token("ada", alg="EdDSA", key=key))).subject == "ada"


def forged(header, payload, signature: bytes = b"") -> str:
    def write(part: bytes) -> str:
        return base64.urlsafe_b64encode(part).decode().rstrip("=")

    return f"{write(json.dumps(header).encode())}.{write(json.dumps(payload).encode())}.{write(signature)}"


async def test_no_signature_and_symmetric_ones_are_refused(issuer):
    verifier = issuer.verifier()
    head, body, _ = issuer.token().split(".")
    payload = json.loads(base64.urlsafe_b64decode(body + "=="))
    public = issuer.keys[0].as_pem(private=False)
    unsigned = forged({"alg": "HS256", "kid": "first"}, payload).rstrip(".")
    hs256 = (
        f"{unsigned}.{base64.urlsafe_b64encode(hmac.digest(public, unsigned.encode(), 'sha256')).decode().rstrip('=')}"
    )
    for token in (
        forged({"alg": "none", "kid": "first"}, payload), forged({"alg": "None", "kid": "first"}, payload), hs256,
        f"{head}.{body}.", forged({"alg": "ES256", "kid": "first", "crit": ["b64"], "b64": False}, payload, b"x"),
        forged({"alg": "ES256", "kid": "first", "jwk": issuer.keys[0].as_dict(private=False)}, payload, b"x" * 64),
        forged({"alg": "ES384", "kid": "first"}, payload, b"x" * 96), forged({"kid": "first"}, payload),
        forged({"alg": "RS256", "kid": "first"}, payload, b"x" * 256),
    ):  # fmt: skip
        assert await reason(verifier, token)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "other"}, {"aud": ["other"]}, {"aud": None}, {"aud": 7}, {"iss": "https://evil.example"}, {"iss": None},
        {"sub": None}, {"sub": ""}, {"sub": "a" * 256}, {"sub": "a\nb"}, {"sub": 5}, {"exp": None}, {"exp": "soon"},
        {"exp": 1e300}, {"nbf": 9e12}, {"iat": 9e12}, {"typ": "ID"}, {"typ": "Refresh"}, {"at_hash": "x"},
        {"jti": 5},
    ],
    ids=str,
)  # fmt: skip
async def test_a_token_that_says_something_else_is_refused(issuer, claims):
    assert await reason(issuer.verifier(), issuer.token("ada", **claims))


@pytest.mark.parametrize("typ", ["JWT", "at+jwt", "application/at+jwt", None])
async def test_another_issuer_may_call_its_access_tokens_what_is_usual(issuer, typ):
    assert await issuer.verifier().access_token(issuer.token(typ=typ))


async def test_the_built_in_issuer_signs_access_tokens_of_one_type_only():
    own = IssuerOfTests(own=True)
    assert (await own.verifier().access_token(own.token())).subject == "ada"
    for typ in ("JWT", None, "logout+jwt"):
        assert "type" in await reason(own.verifier(), own.token(typ=typ))


async def test_only_the_built_in_issuer_speaks_for_service_accounts(issuer):
    claims: dict[str, Any] = {"gpuaas_kind": "service_account", "gpuaas_key": "k"}
    assert (await issuer.verifier().access_token(issuer.token(**claims))).kind == ""
    own = IssuerOfTests(own=True)
    assert (await own.verifier().access_token(own.token(**claims))).kind == "service_account"


async def test_time_has_half_a_minute_of_leeway(issuer):
    verifier, now = issuer.verifier(), clock.epoch_s()
    assert await verifier.access_token(issuer.token(exp=now - 25))
    assert await reason(verifier, issuer.token(exp=now - 35)) == Code.CREDENTIAL_EXPIRED
    assert await verifier.access_token(issuer.token(nbf=now + 25))
    assert await reason(verifier, issuer.token(nbf=now + 60))


@pytest.mark.parametrize("junk", ["", ".", "..", "a.b", "a.b.c.d", "a" * 9000, "é.é.é", "e30.e30.", "bnVsbA.bnVsbA.AA"])
async def test_junk_is_refused_without_asking_the_issuer(issuer, junk):
    assert await reason(issuer.verifier(), junk)
    assert issuer.reads == 0


async def test_a_changed_byte_anywhere_is_refused(issuer):
    verifier, token = issuer.verifier(), issuer.token()
    await verifier.access_token(token)
    for at in range(0, len(token) - 1, 7):
        changed = "A" if token[at] != "A" else "B"
        assert await reason(verifier, token[:at] + changed + token[at + 1 :])


async def test_an_unknown_key_is_looked_for_once_and_a_flood_of_them_causes_one_read(issuer):
    verifier = issuer.verifier()
    await verifier.access_token(issuer.token())
    stranger = IssuerOfTests()
    flood = [stranger.token(key=stranger.add_key()) for _ in range(100)]
    reads = issuer.reads
    await asyncio.gather(*(reason(verifier, token) for token in flood))
    for token in flood:
        await reason(verifier, token)
    assert issuer.reads - reads <= 1


async def test_a_rotated_key_is_found_at_once(issuer, monkeypatch):
    monkeypatch.setattr(key_cache, "FORCED_APART_SECONDS", 0.0)
    verifier = issuer.verifier()
    await verifier.access_token(issuer.token())
    issuer.add_key()
    assert await verifier.access_token(issuer.token())


async def test_the_last_good_keys_stay_while_the_issuer_is_away(issuer, monkeypatch):
    verifier = issuer.verifier()
    await verifier.access_token(issuer.token())
    issuer.away = True
    monkeypatch.setattr(key_cache, "REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(key_cache, "RETRY_SECONDS", 0.0)
    reads = issuer.reads
    assert await verifier.access_token(issuer.token())
    assert issuer.reads > reads


async def test_an_issuer_that_hangs_delays_nobody_for_long(issuer, monkeypatch):
    verifier = issuer.verifier()
    await verifier.access_token(issuer.token())
    monkeypatch.setattr(key_cache, "REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(key_cache, "RETRY_SECONDS", 5.0)
    monkeypatch.setattr(key_cache, "PATIENCE_SECONDS", 0.2)

    async def hang():
        await asyncio.sleep(3600)

    monkeypatch.setattr(issuer, "fetch", hang)
    monkeypatch.setattr(key_cache, "FETCH_SECONDS", 0.5)
    verifier._issuers[issuer.url].keys._tried_at = float("-inf")
    started = clock.monotonic()
    assert await verifier.access_token(issuer.token())
    assert clock.monotonic() - started < 0.45


async def test_without_any_keys_the_answer_is_to_try_again(issuer):
    issuer.away = True
    with pytest.raises(Unavailable):
        await issuer.verifier().access_token(issuer.token())


async def test_the_keys_are_read_again_when_they_are_old_and_a_removed_key_no_longer_holds(issuer, monkeypatch):
    verifier = issuer.verifier()
    claims = await verifier.access_token(issuer.token())
    assert await verifier.still_holds(claims)
    issuer.keys.clear()
    issuer.add_key()
    assert await verifier.still_holds(claims)
    monkeypatch.setattr(key_cache, "REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(key_cache, "RETRY_SECONDS", 0.0)
    assert not await verifier.still_holds(claims)


def test_only_keys_for_signatures_of_the_accepted_kinds_are_held():
    good = ECKey.generate_key("P-256", {"kid": "good"}, private=True).as_dict(private=False)
    rsa = RSAKey.generate_key(2048, {"kid": "rsa"}, private=True)
    refused = [
        OctKey.generate_key(256, {"kid": "oct"}).as_dict(private=True),
        good | {"kid": "enc", "use": "enc"}, good | {"kid": "k" * 256}, good | {"kid": 7},
        good | {"kid": "x", "x": "AA"},
        ECKey.generate_key("P-384", {"kid": "p384"}, private=True).as_dict(private=False),
        good | {"kid": "alg", "alg": "HS256"}, {"kty": "EC"}, {}, "text", None,
        rsa.as_dict(private=False) | {"kid": "small", "n": "_" * 171},
    ]  # fmt: skip
    found = usable_keys({"keys": [good, rsa.as_dict(private=True), *refused]})
    assert sorted(found) == ["good", "rsa"]
    assert not found["rsa"][0].is_private
    assert usable_keys({}) == usable_keys({"keys": "x"}) == {}


async def test_a_token_without_a_key_id_is_taken_only_if_one_key_fits(issuer):
    verifier = issuer.verifier()
    token = issuer.token(header={"kid": None})
    assert await verifier.access_token(token)
    issuer.add_key()
    assert await reason(issuer.verifier(), token)


async def test_break_glass_is_obeyed_once_the_issuer_answers(issuer, monkeypatch):
    monkeypatch.setattr("gpuaas.infra.oidc.verifier.FORCED_APART_SECONDS", 0.0)
    verifier = issuer.verifier()
    claims = await verifier.access_token(issuer.token())
    issuer.keys.clear()
    issuer.add_key()
    issuer.away = True
    assert await verifier.obey("mark")
    assert await verifier.still_holds(claims)
    issuer.away = False
    assert await verifier.obey("mark")
    assert not await verifier.still_holds(claims)
    assert not await verifier.obey("mark")
