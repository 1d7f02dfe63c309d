"""The printed contract is valid, is what the code prints, and is what the API does: schemathesis asks every operation
with good and bad data, as somebody who may do everything, in a world that has one of everything.

GPUAAS_FUZZ_EXAMPLES says how many cases each operation gets in each way; the deep run takes thousands."""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

import gpuaas
from gpuaas.infra.http.openapi import document
from gpuaas.infra.http.operation import REGISTRY
from gpuaas.processes.gen.main import PRINTERS
from tests.every.allocation_world import put_allocation, put_certificate, put_flow, put_quota
from tests.every.asking import OPERATIONS
from tests.every.world import SET_POLICY, make_setting
from tests.support.live import ApiProcess, mint_for
from tests.support.servers import DatabaseUrls

EXAMPLES = int(os.environ.get("GPUAAS_FUZZ_EXAMPLES", "3"))
CONTRACTS = Path(gpuaas.__file__).parents[2] / "contracts"
# They take away what the others need: the session, the organisation, the keys that sign, the rates.
LAST = (
    ("session_end", "credential_revoke"),
    ("org_delete", "project_delete", "member_leave", "member_remove", "member_update"),
    ("issuer_key_rotate", "user_disable", "user_platform_roles_set", "policy_set", "policy_unset"),
)


def test_the_contract_is_valid_openapi():
    OpenAPIV31SpecValidator(msgspec.to_builtins(document(REGISTRY))).validate()


def test_the_contract_names_every_operation_and_none_is_loose():
    """Bodies refuse what they do not know; every error has the one shape; every change takes its key."""
    printed: Any = msgspec.to_builtins(document(REGISTRY))
    found = {op["operationId"]: op for path in printed["paths"].values() for op in path.values()}
    assert set(found) == {op.id for op in OPERATIONS}
    for op in OPERATIONS:
        said = found[op.id]
        if op.body is not None:
            name = said["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            assert printed["components"]["schemas"][name]["additionalProperties"] is False, op.id
        keys = [p for p in said["parameters"] if p["name"] == "Idempotency-Key" and p["required"]]
        assert len(keys) == (1 if op.mutates else 0)
        for status, answer in said["responses"].items():
            if int(status) >= 400:
                answer = printed["components"]["responses"][answer["$ref"].rpartition("/")[2]]
                assert answer["content"]["application/json"]["schema"]["allOf"][0]["$ref"].endswith("/ErrorResponse")


@pytest.mark.parametrize("name", [name for name in PRINTERS if name != "schema.sql"])
def test_the_printed_files_are_what_the_code_prints(name: str):
    """(The schema needs a server of its own to print; `scripts/generated` compares it.)"""
    assert (CONTRACTS / name).read_text() == PRINTERS[name]().rstrip("\n") + "\n", "run make gen"


@dataclass(frozen=True)
class Fuzzed:
    """The API, somebody who may do everything, and what is there."""

    api: ApiProcess
    token: str
    known: dict[str, Any]

    def config(self, *, known: bool) -> str:
        lines = ["[auth.openapi.bearer]", f'bearer = "{self.token}"']
        if known:
            lines += ["[parameters]", *(f'"path.{name}" = "{value}"' for name, value in self.known.items())]
        return "\n".join(lines) + "\n"


@pytest.fixture
async def fuzzed(api_process: ApiProcess, database: DatabaseUrls, tmp_path: Path) -> AsyncIterator[Fuzzed]:
    connection = await asyncpg.connect(database.superuser)
    s = await make_setting(connection, api_process.settings.realm)
    owner = s.people["owner"]
    await connection.execute("UPDATE users SET platform_roles = '{platform-admin}' WHERE id = $1", owner.id)
    token = (await mint_for(api_process.settings, database.app))(owner)
    known = {
        "org_id": s.org_id,
        "project_id": s.project_id,
        "user_id": s.people["target"].id,
        "name": SET_POLICY,
        "service_account_id": s.accounts["tended"].id,
        "key_id": s.accounts["tended"].key_id,
        "invitation_id": s.invitation_id,
        "dead_letter_id": s.dead_letter_id,
        "audit_id": s.audit_id,
        "allocation_id": (allocation_id := await put_allocation(s, state="released")),  # watching it ends at once
        "quota_id": await put_quota(s),
        "run_id": await put_flow(s, allocation_id, state="done"),
        "certificate_id": await put_certificate(s, allocation_id),
    }
    yield Fuzzed(api_process, token, known)
    await connection.close()


async def fuzz(f: Fuzzed, report: Path, *options: str, known: bool = True) -> dict[str, Any]:
    """Run schemathesis beside; what it says when it fails is what we say."""
    before = await mistakes(f)
    config = report.with_suffix(".toml")
    config.write_text(f.config(known=known))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "schemathesis.cli",
        "--config-file",
        str(config),
        "run",
        f"{f.api.url}/api/openapi.json",
        "--checks",
        "all",
        "--exclude-checks",
        "positive_data_acceptance",
        "--max-examples",
        str(EXAMPLES),
        "--request-timeout",
        "20",
        "--suppress-health-check",
        "all",
        "--seed",
        "1",
        "--no-color",
        "--continue-on-failure",
        "--report",
        "json",
        "--report-json-path",
        str(report),
        *options,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=report.parent,
        env=os.environ
        | {
            "PYTHONWARNINGS": "ignore",
            "SCHEMATHESIS_HOOKS": "tests.every.schemathesis_hooks",
            "PYTHONPATH": str(CONTRACTS.parent),
        },
    )
    said, _ = await process.communicate()
    if os.environ.get("GPUAAS_FUZZ_LOG"):
        Path(os.environ["GPUAAS_FUZZ_LOG"]).write_bytes(said)
    assert process.returncode == 0, said.decode()[-20_000:]
    assert await mistakes(f) == before
    found: dict[str, Any] = json.loads(report.read_text())
    return found


async def mistakes(f: Fuzzed) -> list[str]:
    """What the API has counted against itself: errors nobody declared, and failures."""
    async with httpx.AsyncClient(base_url=f.api.url) as client:
        metrics = (await client.get("/metrics")).text
    return re.findall(
        r'^(?:gpuaas_http_undeclared_errors_total\{.*\} [1-9].*|gpuaas_http_answers_total\{.*status="500"\} .*)$',
        metrics,
        re.MULTILINE,
    )


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("known", [True, False], ids=["what is there", "whatever fits"])
async def test_the_api_does_what_the_contract_says(fuzzed: Fuzzed, tmp_path: Path, known: bool):
    excluded = [part for group in LAST for name in group for part in ("--exclude-operation-id", name)]
    await fuzz(fuzzed, tmp_path / "report.json", "--phases", "examples,coverage,fuzzing", *excluded, known=known)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("group", LAST, ids=lambda group: group[0])
async def test_what_takes_away_what_others_need_does_what_the_contract_says(
    fuzzed: Fuzzed, tmp_path: Path, group: tuple[str, ...]
):
    included = [part for name in group for part in ("--include-operation-id", name)]
    await fuzz(fuzzed, tmp_path / "report.json", "--phases", "examples,coverage,fuzzing", *included)
