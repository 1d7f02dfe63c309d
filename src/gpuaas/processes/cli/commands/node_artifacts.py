"""Versions of the agent: published from a file, listed, retired; and a node told to become one."""

import base64
import hashlib
import time
from pathlib import Path
from typing import BinaryIO, TypeVar

from gpuaas.client import artifacts
from gpuaas.client.call import Call
from gpuaas.client.errors import ApiError
from gpuaas.contracts.http.artifacts import (
    PART_BYTES,
    ArtifactCreate,
    ArtifactListQuery,
    ArtifactPart,
    ArtifactRetire,
    ArtifactState,
    ArtifactView,
)
from gpuaas.kit.paging import MAX_LIMIT
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, REASON, YES, Argument, Group
from gpuaas.processes.cli.failures import Exit, Stop, UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

T = TypeVar("T")
PARENT = Group("nodes", "Versions of the agent; a part of the group of nodes.")
GROUP = PARENT.group("artifacts", "Versions of the agent that nodes can be told to become.")
_TRIES = 30
_COLUMNS: list[Column[ArtifactView]] = [
    ("version", lambda one: one.version),
    ("state", lambda one: one.state),
    ("since", lambda one: one.state_since),
    ("size", lambda one: one.size),
    ("digest", lambda one: one.digest),
    ("by", lambda one: one.created_by),
    ("id", lambda one: one.id),
]


@GROUP.command(
    "publish",
    Argument("file", help="A tar archive with the program `agent` in it.", completes="file"),
    Argument("--version", required=True, help="What it is called: letters, digits and any of ._+- after the first."),
    summary="Publish a version of the agent. Nodes become it when they are told to: gpuaas nodes update.",
    examples=["gpuaas nodes artifacts publish agent-1.4.2.tar.gz --version 1.4.2"],
)
def artifact_publish(run: Run, *, file: str, version: str) -> None:
    try:
        with Path(file).open("rb") as content:
            digest = "sha256:" + hashlib.file_digest(content, "sha256").hexdigest()
            wanted = ArtifactCreate(version=version, digest=digest, size=content.tell())
            made = run.api.send(artifacts.artifact_create(wanted))
            _upload(run, made, content)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error
    run.show(artifacts.artifact_publish(made.id), _COLUMNS)


def _upload(run: Run, made: ArtifactView, content: BinaryIO) -> None:
    content.seek(0)
    for number in range(1, -(-made.size // PART_BYTES) + 1):
        part = ArtifactPart(content=base64.b64encode(content.read(PART_BYTES)).decode())
        _patiently(run, artifacts.artifact_upload(made.id, number, part))
        if run.out.err.isatty():
            sent = min(number * PART_BYTES, made.size)
            run.out.err.write(f"\r{100 * sent // made.size} % uploaded{'' if sent < made.size else chr(10)}")
            run.out.err.flush()


def _patiently(run: Run, call: Call[T]) -> T:
    """A large file is many requests: as fast as the API lets us."""
    for _ in range(_TRIES):
        try:
            return run.api.send(call)
        except ApiError as error:
            if error.status != 429:
                raise
            time.sleep(min(error.retry_after or 1, 60))
    return run.api.send(call)


@GROUP.command(
    "list",
    Argument("--state", choices=tuple(ArtifactState), help="Only those."),
    LIMIT,
    ALL,
    summary="List versions of the agent, the oldest first.",
)
def artifact_list(run: Run, *, state: str | None, limit: int, all: bool) -> None:
    query = ArtifactListQuery(state=None if state is None else ArtifactState(state))
    empty = "No version is published. Publish one: gpuaas nodes artifacts publish FILE --version V"
    run.table(artifacts.artifact_list(query), _COLUMNS, limit=limit, all=all, empty=empty)


@GROUP.command(
    "retire",
    Argument("version", help="The published version, or an artifact's id.", completes="agent_version"),
    REASON,
    YES,
    summary="Retire a version: no node is told to become it any more. Nodes that are it stay so.",
)
def artifact_retire(run: Run, *, version: str, reason: str, yes: bool) -> None:
    artifact_id = names.as_id(version)
    if artifact_id is None:
        query = ArtifactListQuery(state=ArtifactState.PUBLISHED, version=version, limit=MAX_LIMIT)
        found = run.api.send(artifacts.artifact_list(query)).items
        if not found:
            raise Stop(
                f"No version {version!r} is published.", "See them with: gpuaas nodes artifacts list", Exit.MISSING
            )
        artifact_id = found[0].id
    run.confirm(f"Retire {version}? It cannot be taken back; the same file can be published again.", yes=yes)
    run.show(artifacts.artifact_retire(artifact_id, ArtifactRetire(reason=reason)), _COLUMNS)
