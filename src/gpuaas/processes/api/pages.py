"""What the API serves beside operations: probes, the printed contract, its documentation, the landing page."""

import msgspec

from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.http.app import Page
from gpuaas.infra.http.openapi import document
from gpuaas.infra.http.operation import REGISTRY
from gpuaas.infra.http.pipeline import Answer
from gpuaas.infra.http.probes import Probes
from gpuaas.infra.http.probes import pages as probe_pages
from gpuaas.infra.http.request import Request
from gpuaas.infra.postgres.health import DatabaseHealth


def probes(health: DatabaseHealth, policy: MemoryPolicy) -> Probes:
    async def policies() -> str:
        return "" if policy.loaded else "policies are not loaded yet"

    return Probes("api", required={
        "database": health.reachable, "migrations": health.migrated, "policies": policies,
    })


def pages(asked: Probes) -> dict[str, Page]:
    """By path. None of them needs a credential, and none refers to anything outside."""
    found: dict[str, Page] = probe_pages(asked)
    found["/api/openapi.json"] = _fixed(msgspec.json.encode(document(REGISTRY)), "application/json")
    return found


def _fixed(body: bytes, content_type: str, *headers: tuple[bytes, bytes]) -> Page:
    async def fixed(_: Request) -> Answer:
        return Answer(200, body, content_type.encode(), headers)

    return fixed
