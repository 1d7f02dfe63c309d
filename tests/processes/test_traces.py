"""One trace from a request through outbox, relay and reaction, as a collector receives it (OTLP over HTTP)."""

import asyncio
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gpuaas.contracts.tokens import BUILT_IN
from gpuaas.infra.embedded.nats import EmbeddedNats
from gpuaas.kit.ids import new_id
from tests.support.live import ApiProcess, make_settings, mint_for
from tests.support.programs import ProgramProcess
from tests.support.servers import DatabaseUrls, clone

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
WAIT_SECONDS = 40


class Collector(ThreadingHTTPServer):
    """Keeps (service, span name, trace id) of every span it is sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[tuple[str, str, str]] = []
        Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def of_trace(self, trace_id: str) -> set[tuple[str, str]]:
        return {(service, name) for service, name, trace in self.spans if trace == trace_id}


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        told = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
        for resource in told.resource_spans:
            service = next(a.value.string_value for a in resource.resource.attributes if a.key == "service.name")
            for scope in resource.scope_spans:
                self.server.spans += [(service, span.name, span.trace_id.hex()) for span in scope.spans]
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    yield server
    server.shutdown()
    server.server_close()


class Person:
    def __init__(self, name: str) -> None:
        self.id, self.subject, self.email, self.name = new_id(), str(new_id()), f"{name}@example.com", name


async def put(connection: Any, person: Person, roles: list[str]) -> UUID:
    await connection.execute(
        "INSERT INTO users (id, issuer, subject, email, email_verified, name, platform_roles) "
        "VALUES ($1, $2, $3, $4, true, $5, $6)",
        person.id,
        BUILT_IN,
        person.subject,
        person.email,
        person.name,
        roles,
    )
    return person.id


async def test_a_request_its_event_and_the_reaction_are_one_trace(
    template: DatabaseUrls, own_nats: EmbeddedNats, collector: Collector, tmp_path: Path
):
    async with clone(template) as urls:
        settings = make_settings(urls.app, own_nats.url, otlp_endpoint=collector.url)
        api = ApiProcess(settings, tmp_path / "api.log")
        others = [ProgramProcess(name, urls.app, own_nats.url, tmp_path / name) for name in ("relay", "worker")]
        try:
            api.start()
            for program in others:
                program.settings["GPUAAS_OTLP_ENDPOINT"] = collector.url
                program.start()
            await api.ready()
            connection = await asyncpg.connect(urls.superuser)
            admin, target = Person("ada"), Person("bob")
            await put(connection, admin, ["platform-admin"])
            await put(connection, target, [])
            await connection.close()
            mint = await mint_for(settings, urls.app)
            async with httpx.AsyncClient(base_url=settings.public_url) as client:
                answer = await client.post(
                    f"/api/v1/platform/users/{target.id}/disable",
                    headers={
                        "Authorization": f"Bearer {mint(admin)}",
                        "Idempotency-Key": new_id().hex,
                        "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01",
                    },
                    json={"reason": "seen in a trace"},
                )
            assert answer.status_code == 200, answer.text
            wanted = {
                ("gpuaas-api", "user_disable"),
                ("gpuaas-relay", "publish user.disabled"),
                ("gpuaas-worker", "react issuer.sessions_end"),
            }
            for _ in range(WAIT_SECONDS * 5):
                if wanted <= collector.of_trace(TRACE):
                    break
                await asyncio.sleep(0.2)
            assert wanted <= collector.of_trace(TRACE)
        finally:
            api.kill()
            for program in others:
                program.kill()
