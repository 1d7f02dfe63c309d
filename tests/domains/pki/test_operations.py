"""What operators do with the authority, and what a node's enrolment is over HTTP."""

import pytest

from gpuaas.contracts.permissions import PlatformRole
from gpuaas.kit.ids import new_id
from tests.support.certificates import enrolled
from tests.support.people import City, found, refusal


@pytest.fixture(scope="module")
async def admin(city: City):
    return await city.admin()


async def test_rotating_before_there_was_a_node_makes_the_first_authority(city: City, admin):
    after = found(await city.ask(admin, "POST", "/platform/ca/rotate", {"reason": "first", "kind": "root"}), 200)
    assert [(a["kind"], a["state"]) for a in after["authorities"]] == [("intermediate", "signing"), ("root", "signing")]


async def test_an_operator_sees_and_rotates_the_authorities(city: City, pki, admin):
    await enrolled(city.db, pki)
    before = await city.get(admin, "/platform/ca")
    assert before["trust_domain"] == "cloud.example"
    assert {a["kind"] for a in before["authorities"]} == {"root", "intermediate"}
    assert "key_sealed" not in before["authorities"][0]
    body = {"reason": "by schedule"}
    after = found(await city.ask(admin, "POST", "/platform/ca/rotate", body), 200)
    assert [a["state"] for a in after["authorities"] if a["kind"] == "intermediate"][:2] == ["signing", "retired"]


async def test_an_operator_lists_and_revokes_a_nodes_certificates(city: City, pki, admin):
    node = await enrolled(city.db, pki)
    await enrolled(city.db, pki)
    listed = await city.get(admin, "/platform/certificates", node_id=str(node.node_id))
    (one,) = listed["items"]
    assert (one["node_id"], one["state"]) == (str(node.node_id), "live")
    path = f"/platform/certificates/{one['id']}/revoke"
    revoked = found(await city.ask(admin, "POST", path, {"reason": "stolen"}), 200)
    assert (revoked["state"], revoked["revoked_reason"]) == ("revoked", "stolen")
    assert refusal(await city.ask(admin, "POST", path, {"reason": "stolen"})) == (409, "certificate_ended")
    absent = f"/platform/certificates/{new_id()}/revoke"
    assert refusal(await city.ask(admin, "POST", absent, {"reason": "stolen"})) == (404, "certificate_missing")


async def test_an_auditor_looks_and_touches_nothing(city: City):
    auditor = await city.admin(PlatformRole.AUDITOR)
    await city.get(auditor, "/platform/ca")
    await city.get(auditor, "/platform/certificates")
    answer = await city.ask(auditor, "POST", "/platform/ca/rotate", {"reason": "for fun"})
    assert refusal(answer) == (403, "permission_denied")
