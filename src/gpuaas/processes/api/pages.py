"""What the API serves beside operations: probes, the printed contract, its documentation, the landing page."""

import msgspec

from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.http.app import Page
from gpuaas.infra.http.docs import docs_page
from gpuaas.infra.http.html import HtmlPage
from gpuaas.infra.http.landing import landing_page
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

    return Probes(
        "api",
        required={
            "database": health.reachable,
            "migrations": health.migrated,
            "policies": policies,
        },
    )


def pages(asked: Probes, public_url: str) -> dict[str, Page]:
    """By path. None of them needs a credential, and none refers to anything outside."""
    found: dict[str, Page] = probe_pages(asked)
    contract = document(REGISTRY)
    found["/api/openapi.json"] = _fixed(msgspec.json.encode(contract), "application/json")
    found["/api/docs"] = _html(docs_page(contract))
    found["/"] = _html(landing_page(public_url))
    return found


def _html(page: HtmlPage) -> Page:
    return _fixed(page.body, "text/html; charset=utf-8", *page.headers)


def _fixed(body: bytes, content_type: str, *headers: tuple[bytes, bytes]) -> Page:
    async def fixed(_: Request) -> Answer:
        return Answer(200, body, content_type.encode(), headers)

    return fixed
