"""Bootstrap tokens, enrolment and renewal."""

import asyncio
import base64
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from gpuaas.domains.pki import service
from gpuaas.domains.pki.site import Pki
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Sight
from gpuaas.kit import clock
from gpuaas.kit.errors import Fault, Limited, Refused, Unauthenticated
from gpuaas.kit.ids import new_id
from tests.support.certificates import DAY, SEES_ALL, Held, enrolled, new_key, request_for

REFUSED = "bootstrap_token_refused"


async def token_for(db: Database, node_id: Any, *, seconds: int = 600) -> str:
    async with db.transaction(SEES_ALL, "tests") as tx:
        return (await service.bootstrap_token_create(tx, node_id, seconds=seconds)).token


async def enrol(db: Database, pki: Pki, token: str, csr: str | None = None, *, seconds: int = DAY) -> Any:
    async with db.transaction(Sight(), "tests") as tx:
        return await service.enrol(tx, pki, token, request_for(new_key()) if csr is None else csr, seconds=seconds)


async def renew(db: Database, pki: Pki, node: Held, key: Any = None, *, seconds: int = DAY) -> Any:
    assert node.node_id is not None
    assert node.issued is not None
    csr, shown = request_for(key or new_key()), node.issued.certificate.serial
    async with db.transaction(SEES_ALL, "tests") as tx:
        return await service.renew(tx, pki, node.node_id, csr, shown=shown, seconds=seconds)


async def test_a_token_makes_the_node_it_was_made_for(db, pki):
    node_id = new_id()
    found, issued = await enrol(db, pki, await token_for(db, node_id))
    assert found == node_id
    assert issued.certificate.node_id == node_id


async def test_a_token_is_used_once(db, pki):
    token = await token_for(db, new_id())
    await enrol(db, pki, token)
    with pytest.raises(Unauthenticated) as refused:
        await enrol(db, pki, token)
    assert refused.value.code == REFUSED


async def test_of_many_who_use_a_token_at_once_one_gets_in(db, pki):
    token = await token_for(db, new_id())
    answers = await asyncio.gather(*(enrol(db, pki, token) for _ in range(8)), return_exceptions=True)
    assert sum(not isinstance(answer, BaseException) for answer in answers) == 1
    assert {a.code for a in answers if isinstance(a, Fault)} == {REFUSED}


async def test_expired_unknown_and_replaced_tokens_are_refused_alike(db, pki, superuser):
    node_id = new_id()
    replaced, expired = await token_for(db, node_id), await token_for(db, new_id())
    await token_for(db, node_id)
    await superuser.execute(
        "UPDATE bootstrap_tokens SET created_at = created_at - interval '1 hour', "
        "expires_at = now() - interval '1 second' "
        "WHERE id = (SELECT id FROM bootstrap_tokens ORDER BY id DESC OFFSET 1 LIMIT 1)"
    )
    said = set()
    for token in (expired, replaced, "gpuaas_bt_" + "x" * 43, ""):
        with pytest.raises(Unauthenticated) as refused:
            await enrol(db, pki, token)
        said.add((refused.value.code, refused.value.message))
    assert len(said) == 1


async def test_a_refused_request_leaves_the_token_unused(db, pki):
    token = await token_for(db, new_id())
    with pytest.raises(Refused):
        await enrol(db, pki, token, "nonsense")
    await enrol(db, pki, token)


async def test_no_token_lives_longer_than_an_hour_or_is_kept_readable(db, superuser):
    with pytest.raises(Exception, match="check constraint"):
        await token_for(db, new_id(), seconds=3601)
    token = await token_for(db, new_id())
    assert len(token) >= len("gpuaas_bt_") + 43
    everything = await superuser.fetchval("SELECT string_agg(t::text, ' ') FROM bootstrap_tokens t")
    assert token not in everything
    assert token.removeprefix("gpuaas_bt_") not in everything


async def test_enrolling_again_revokes_what_the_node_had(db, pki, superuser):
    first = await enrolled(db, pki)
    await enrolled(db, pki, node_id=first.node_id)
    rows = await superuser.fetch(
        "SELECT revoked_reason, revoked_at IS NULL AS live FROM certificates WHERE node_id = $1 ORDER BY id",
        first.node_id,
    )
    assert [(row["revoked_reason"], row["live"]) for row in rows] == [("enrolled again", False), ("", True)]


# what is in a certificate ---------------------------------------------------------------------------------------------
async def test_a_certificate_says_what_we_say_and_nothing_of_what_was_asked(db, pki):
    key, node_id = new_key(), new_id()
    csr = request_for(
        key,
        "root",
        x509.BasicConstraints(ca=True, path_length=None),
        x509.SubjectAlternativeName([x509.DNSName("api.example"), x509.UniformResourceIdentifier("spiffe://x/node/y")]),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
    )
    _, issued = await enrol(db, pki, await token_for(db, node_id), csr)
    leaf = x509.load_der_x509_certificate(issued.certificate.certificate)
    get = leaf.extensions.get_extension_for_class
    assert list(get(x509.SubjectAlternativeName).value) == [
        x509.UniformResourceIdentifier(f"spiffe://cloud.example/node/{node_id}")
    ]
    assert list(get(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert get(x509.BasicConstraints).value == x509.BasicConstraints(ca=False, path_length=None)
    usage = get(x509.KeyUsage).value
    assert usage.digital_signature
    assert not usage.key_cert_sign
    assert list(leaf.subject) == []
    assert leaf.public_key() == key.public_key()
    assert 1 < leaf.serial_number < 1 << 128
    assert f"{leaf.serial_number:032x}" == issued.certificate.serial
    now = clock.now()
    assert timedelta(seconds=595) < now - leaf.not_valid_before_utc < timedelta(seconds=610)
    assert abs(leaf.not_valid_after_utc - now - timedelta(days=1)) < timedelta(seconds=5)


async def test_its_chain_leads_to_a_trusted_root(db, pki):
    node = await enrolled(db, pki)
    leaf, intermediate = x509.load_pem_x509_certificates(node.chain.encode())[:2]
    async with db.read(SEES_ALL) as tx:
        root = x509.load_pem_x509_certificate((await service.trust(tx))[0].encode())
    leaf.verify_directly_issued_by(intermediate)
    intermediate.verify_directly_issued_by(root)
    root.verify_directly_issued_by(root)
    assert isinstance(root.public_key(), ec.EllipticCurvePublicKey)
    assert root.not_valid_after_utc - root.not_valid_before_utc == timedelta(days=3650)
    assert intermediate.not_valid_after_utc - intermediate.not_valid_before_utc == timedelta(days=365)
    constraints = intermediate.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert constraints == x509.BasicConstraints(ca=True, path_length=0)


async def test_a_short_life_is_renewed_at_half_of_it(db, pki):
    node = await enrolled(db, pki, seconds=120)
    assert node.issued is not None
    row = node.issued.certificate
    assert timedelta(seconds=58) < row.renew_after - row.issued_at <= timedelta(seconds=60)
    middle = node.leaf.not_valid_before_utc + (row.not_after - node.leaf.not_valid_before_utc) / 2
    assert middle > row.issued_at + timedelta(seconds=30), "an agent that counts from not_before does not hurry"


# requests -------------------------------------------------------------------------------------------------------------
def _tampered() -> str:
    """The signature of another request."""
    one, other = (x509.load_pem_x509_csr(request_for(new_key()).encode()) for _ in range(2))
    der = one.public_bytes(Encoding.DER)
    swapped = der[: -len(one.signature)] + other.signature[-len(one.signature) :].rjust(len(one.signature), b"0")
    body = base64.encodebytes(swapped).decode()
    return f"-----BEGIN CERTIFICATE REQUEST-----\n{body}-----END CERTIFICATE REQUEST-----\n"


@pytest.mark.parametrize(
    "make",
    [
        lambda: request_for(rsa.generate_private_key(65537, 2048)),
        lambda: request_for(ec.generate_private_key(ec.SECP384R1())),
        lambda: request_for(ec.generate_private_key(ec.SECP256K1())),
        _tampered,
        lambda: "",
        lambda: "x" * 9000,
        lambda: request_for(new_key()) + "x" * 9000,
        lambda: request_for(new_key()) + request_for(new_key()),
        lambda: request_for(new_key()).replace("CERTIFICATE REQUEST", "CERTIFICATE"),
        lambda: "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----",
        lambda: request_for(new_key()).replace("M", "é", 1),
    ],
    ids=["rsa", "p-384", "secp256k1", "tampered", "empty", "huge", "long", "two", "certificate", "garbage", "unicode"],
)
async def test_requests_we_do_not_sign(db, pki, make):
    with pytest.raises(Refused) as refused:
        await enrol(db, pki, "never looked at", make())
    assert refused.value.code == "csr_refused"
    assert refused.value.details[0].field == "csr"


async def test_ed25519_is_signed_too(db, pki):
    csr = request_for(ed25519.Ed25519PrivateKey.generate())
    _, issued = await enrol(db, pki, await token_for(db, new_id()), csr)
    assert isinstance(
        x509.load_der_x509_certificate(issued.certificate.certificate).public_key(), ed25519.Ed25519PublicKey
    )


# renewal --------------------------------------------------------------------------------------------------------------
async def test_a_renewal_is_for_the_same_node_and_repeats_itself_for_the_same_key(db, pki):
    node, key = await enrolled(db, pki), new_key()
    first, again = await renew(db, pki, node, key), await renew(db, pki, node, key)
    assert first.certificate.node_id == node.node_id
    assert first == again
    assert (await renew(db, pki, node)).certificate.serial != first.certificate.serial


async def test_a_node_cannot_have_certificates_without_end(db, pki):
    node = await enrolled(db, pki)
    with pytest.raises(Limited):
        for _ in range(service.MAX_PER_LIFE + 1):
            await renew(db, pki, node)


async def test_twenty_renewals_at_once_for_one_key_are_one_certificate(db, pki):
    node, key = await enrolled(db, pki), new_key()
    answers = await asyncio.gather(*(renew(db, pki, node, key) for _ in range(20)))
    assert len({answer.certificate.serial for answer in answers}) == 1


async def test_renewals_at_once_for_many_keys_are_counted_exactly(db, pki):
    node = await enrolled(db, pki)
    asked = (renew(db, pki, node) for _ in range(service.MAX_PER_LIFE + 10))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    given = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert len(given) == service.MAX_PER_LIFE - 1, "the first was by enrolment"
    assert {type(answer) for answer in answers if answer not in given} == {Limited}


async def test_whoever_is_five_minutes_behind_or_ahead_believes_a_certificate_made_just_now(db, pki):
    """Of the node, and of every authority above it, the first ones just made."""
    node, skew, now = await enrolled(db, pki), timedelta(minutes=5), clock.now()
    async with db.read(SEES_ALL) as tx:
        roots = [x509.load_pem_x509_certificate(pem.encode()) for pem in await service.trust(tx)]
    for certificate in (*x509.load_pem_x509_certificates(node.chain.encode()), *roots):
        assert certificate.not_valid_before_utc <= now - skew
        assert certificate.not_valid_after_utc > now + skew


async def test_after_all_this_the_invariants_hold(superuser):
    for view in ("invariant_20_certificates_signed_while_valid", "invariant_35_token_used_once"):
        assert await superuser.fetch(f"SELECT * FROM {view}") == []
