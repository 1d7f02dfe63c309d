"""What an agent says to the control plane, verb by verb, over its own certificate. Paths and types are those of
`contracts.http.agent`; an answer of another shape is an error, never a guess."""

import hashlib
import os
import ssl
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import msgspec

from gpuaas.client.agent_connection import Answer, Pool
from gpuaas.client.call import Call
from gpuaas.client.errors import ApiError, ClientError
from gpuaas.contracts.http.agent import (
    CertificateView,
    Claim,
    Claimed,
    Desired,
    Enrol,
    Enrolled,
    Heartbeat,
    Renew,
    TellFaults,
    TellMetrics,
    TellPhases,
    TrustView,
)
from gpuaas.contracts.http.base import ErrorResponse
from gpuaas.contracts.tasks.base import Phase, Report
from gpuaas.contracts.tasks.topology import GpuFault

PREFIX = "/agent/v1"
ANSWER_SECONDS = 15.0
MAX_ARTIFACT = 1024 * 1024 * 1024
T = TypeVar("T")


def node_enrol(wanted: Enrol) -> Call[Enrolled]:
    """On the people's listener: what an agent says before it has a certificate."""
    return Call(operation="node_enrol", method="POST", path="/nodes/enrol", answer=Enrolled, body=wanted)


class AgentApi:
    """The agents' listener, as one node sees it."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        self.pool = Pool(url, tls)

    def close(self) -> None:
        self.pool.close()

    async def claim(self, wanted: Claim) -> Claimed:
        return await self._say("POST", "/claim", wanted, Claimed, seconds=wanted.wait_seconds + ANSWER_SECONDS)

    async def heartbeat(self, beat: Heartbeat) -> Desired:
        return await self._say("POST", "/heartbeat", beat, Desired)

    async def phases(self, task_id: UUID, phases: list[Phase]) -> None:
        await self._tell(f"/tasks/{task_id}/phases", TellPhases(phases=phases))

    async def result(self, task_id: UUID, report: Report) -> None:
        await self._tell(f"/tasks/{task_id}/result", report)

    async def faults(self, faults: list[GpuFault]) -> None:
        await self._tell("/faults", TellFaults(faults=faults))

    async def metrics(self, batch: TellMetrics) -> None:
        await self._tell("/metrics", batch)

    async def renew(self, csr: str) -> CertificateView:
        return await self._say("POST", "/certificate", Renew(csr=csr), CertificateView)

    async def trust(self) -> TrustView:
        return await self._say("GET", "/trust", None, TrustView)

    async def artifact(self, artifact_id: UUID, into: Path) -> str:
        """Fetch a file; its digest, `sha256:…`."""
        path, size, digest = f"{PREFIX}/artifacts/{artifact_id}", 0, hashlib.sha256()
        async with self.pool.stream(path, ANSWER_SECONDS) as (answer, parts):
            if answer.status != HTTPStatus.OK:
                content = b"".join([part async for part in parts])
                raise _refusal(Answer(answer.status, answer.headers, content))
            with into.open("wb") as file:
                async for part in parts:
                    size += len(part)
                    if size > MAX_ARTIFACT:
                        raise ClientError(f"the artifact is longer than {MAX_ARTIFACT} bytes")
                    digest.update(part)
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
        return f"sha256:{digest.hexdigest()}"

    async def _tell(self, path: str, what: msgspec.Struct) -> None:
        await self._ask("POST", path, what, ANSWER_SECONDS)

    async def _say(
        self, method: str, path: str, what: msgspec.Struct | None, answer: type[T], *, seconds: float = ANSWER_SECONDS
    ) -> T:
        content = await self._ask(method, path, what, seconds)
        try:
            return msgspec.json.decode(content, type=answer)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ClientError(f"the control plane's answer to {path} cannot be read: {error}") from error

    async def _ask(self, method: str, path: str, what: msgspec.Struct | None, seconds: float) -> bytes:
        body = None if what is None else msgspec.json.encode(what)
        answer = await self.pool.ask(method, PREFIX + path, body, seconds)
        if answer.status >= HTTPStatus.BAD_REQUEST or answer.status < HTTPStatus.OK:
            raise _refusal(answer)
        return answer.content


def _refusal(answer: Answer) -> ApiError:
    after = answer.headers.get("retry-after", "")
    retry_after = int(after) if after.isdigit() and len(after) < 6 else None
    try:
        said = msgspec.json.decode(answer.content, type=ErrorResponse).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        message = f"the agents' listener answered {answer.status} in a way it does not"
        return ApiError(answer.status, "not_from_the_api", message, retry_after=retry_after)
    return ApiError(
        answer.status,
        said.code,
        said.message,
        details=said.details,
        correlation_id=said.correlation_id,
        retry_after=retry_after,
    )
