"""An agent becomes another version of itself, or comes back: real processes, real symlinks, nobody is root."""

import hashlib
import io
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from gpuaas import __version__
from gpuaas.contracts.tasks.base import Outcome, Report
from gpuaas.contracts.tasks.catalogue import AgentUpdate, Inspect, UpdateResult
from gpuaas.kit.ids import new_id
from tests.processes.agent.conftest import AgentProcess
from tests.support.agent_plane import Plane, until

GOOD = "from gpuaas.processes.agent.main import main\nsys.exit(main(sys.argv[1:]))\n"
BROKEN = "sys.exit(3)\n"
DEAF = "import time\ntime.sleep(600)\n"


def artifact(plane: Plane, program: str) -> tuple[UUID, str]:
    text = f"#!{sys.executable}\nimport sys\n{program}".encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo("agent")
        entry.size, entry.mode = len(text), 0o755
        tar.addfile(entry, io.BytesIO(text))
    artifact_id = new_id()
    plane.artifacts[artifact_id] = packed.getvalue()
    return artifact_id, f"sha256:{hashlib.sha256(packed.getvalue()).hexdigest()}"


def update(plane: Plane, node_id: UUID, program: str, version: str, within: int = 30) -> UUID:
    artifact_id, digest = artifact(plane, program)
    return plane.give(
        node_id, AgentUpdate(version=version, digest=digest, artifact_id=artifact_id, healthy_within_seconds=within)
    )


def said(report: Report) -> UpdateResult:
    assert report.outcome is Outcome.DONE, report.reason
    return msgspec.json.decode(report.result, type=UpdateResult)


@pytest.fixture
def launched(tmp_path: Path) -> AgentProcess:
    return AgentProcess(tmp_path / "state", verb="launch")


@pytest.fixture
async def node(plane: Plane, launched: AgentProcess) -> AsyncIterator[UUID]:
    node_id = plane.make_node(launched.state)
    await launched.start()
    await until(lambda: plane.nodes[node_id].beats, 20, "a heartbeat")
    yield node_id
    launched.terminate()


async def test_a_healthy_version_stays_and_reports_itself(plane: Plane, node: UUID, launched: AgentProcess) -> None:
    assert plane.nodes[node].beats[-1].agent_version == __version__
    task_id = update(plane, node, GOOD, "2.0.0")
    assert said(await plane.result(node, task_id, 40)) == UpdateResult(version="2.0.0", rolled_back=False)
    await until(lambda: plane.nodes[node].beats[-1].agent_version == "2.0.0", 10, "the new version")
    assert (launched.state / "current" / "agent").exists()
    assert len(plane.nodes[node].results[task_id]) == 1
    assert (await plane.result(node, plane.give(node, Inspect()))).outcome is Outcome.DONE


@pytest.mark.parametrize(
    ("program", "within", "why"),
    [(BROKEN, 30, "ended with 3"), (DEAF, 5, "not healthy within 5")],
    ids=["broken", "deaf"],
)
async def test_a_version_that_is_not_healthy_in_time_is_rolled_back(
    plane: Plane, node: UUID, launched: AgentProcess, program: str, within: int, why: str
) -> None:
    task_id = update(plane, node, program, "3.0.0", within)
    told = said(await plane.result(node, task_id, 60))
    assert (told.version, told.rolled_back) == (__version__, True)
    assert why in told.reason
    assert not (launched.state / "current").exists()
    assert (await plane.result(node, plane.give(node, Inspect()))).outcome is Outcome.DONE
    assert len(plane.nodes[node].results[task_id]) == 1


async def test_an_artifact_that_is_not_as_signed_is_never_unpacked(
    plane: Plane, node: UUID, launched: AgentProcess
) -> None:
    artifact_id, digest = artifact(plane, GOOD)
    plane.artifacts[artifact_id] += b"x"
    task_id = plane.give(node, AgentUpdate(version="2.0.0", digest=digest, artifact_id=artifact_id))
    report = await plane.result(node, task_id)
    assert (report.outcome, report.code) == (Outcome.FAILED, "digest_mismatch")
    missing = plane.give(node, AgentUpdate(version="2.0.0", digest=digest, artifact_id=new_id()))
    assert (await plane.result(node, missing)).code == "fetch_failed"
    assert not (launched.state / "current").exists()


@pytest.mark.parametrize(("name", "kind"), [("../../escaped", tarfile.REGTYPE), ("agent", tarfile.SYMTYPE)])
async def test_an_artifact_that_reaches_outside_its_folder_is_refused(
    plane: Plane, node: UUID, tmp_path: Path, name: str, kind: bytes
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = kind, "/bin/sh"
        tar.addfile(entry, io.BytesIO(b""))
    artifact_id = new_id()
    plane.artifacts[artifact_id] = packed.getvalue()
    digest = f"sha256:{hashlib.sha256(packed.getvalue()).hexdigest()}"
    task_id = plane.give(node, AgentUpdate(version="2.0.0", digest=digest, artifact_id=artifact_id))
    assert (await plane.result(node, task_id)).code == "artifact_damaged"
    assert not list(tmp_path.rglob("escaped"))


async def test_a_version_older_than_its_launcher_runs_without_what_it_does_not_know(tmp_path: Path) -> None:
    """A launcher that is newer says more; typed by a person, the same is a mistake."""
    argv = [
        sys.executable,
        "-m",
        "gpuaas",
        "agent",
        "run",
        "--state-dir",
        str(tmp_path / "none"),
        "--from-later",
        "1",
    ]
    typed = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (typed.returncode, "--from-later" in typed.stderr) == (2, True)
    launched = subprocess.run([*argv, "--launched", "1.0-abc"], capture_output=True, text=True, check=False)
    assert launched.returncode == 1
    assert "--from-later" not in launched.stderr
    assert "none" in launched.stderr, "it got as far as its state, which is not there"
