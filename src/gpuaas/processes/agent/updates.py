"""Becoming another version: fetched, checked against its digest, staged beside the others, switched to by one symlink.

Always holds: `update.json` says what is tried before anything is switched; the version that leaves never reports; the
version that stays reports what became of it. Trying and rolling back is the launcher's, because a version that cannot
even start could not roll itself back."""

import asyncio
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path, PurePosixPath
from uuid import UUID

import msgspec

from gpuaas.client.agent import AgentApi
from gpuaas.client.errors import ClientError
from gpuaas.contracts.tasks.catalogue import AgentUpdate, UpdateResult
from gpuaas.infra.hosts.simulated.host import SimulatedHost
from gpuaas.ports.host import HostFailed, PhaseTeller
from gpuaas.processes.agent.state_directory import StateDirectory, sync_folder

UPDATE, CURRENT, VERSIONS = "update.json", "current", "versions"
PROGRAM, VERSION_FILE = "agent", ".version"
MOST_BYTES = 2 * 1024 * 1024 * 1024
MOST_FILES = 100_000
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


class Stage(StrEnum):
    TRYING = "trying"
    HEALTHY = "healthy"
    ROLLED_BACK = "rolled_back"


class Update(msgspec.Struct, frozen=True, kw_only=True):
    task_id: UUID
    version: str
    to: str
    """The folder of the version that is tried; `back_to` is the one before, empty for the installed one."""
    back_to: str
    healthy_within_seconds: int
    stage: Stage
    reason: str = ""
    tries: int = 0


def read_update(state: StateDirectory) -> Update | None:
    content = state.read(UPDATE)
    return None if content is None else msgspec.json.decode(content, type=Update)


def write_update(state: StateDirectory, update: Update) -> None:
    state.write(UPDATE, msgspec.json.encode(update))


def current(state: StateDirectory) -> str:
    """The folder of the version that is to run; empty: the installed one."""
    try:
        return Path(os.readlink(state.path / CURRENT)).name
    except FileNotFoundError:
        return ""


def switch(state: StateDirectory, to: str) -> None:
    """In one step."""
    link = state.path / CURRENT
    if not to:
        link.unlink(missing_ok=True)
    else:
        draft = state.path / f".{CURRENT}"
        draft.unlink(missing_ok=True)
        draft.symlink_to(Path(VERSIONS, to))
        draft.replace(link)
    sync_folder(state.path)


def version_of(state: StateDirectory, folder: str) -> str:
    return (state.path / VERSIONS / folder / VERSION_FILE).read_text().strip()


class LaunchedUpdater:
    """For an agent started by the launcher from `folder`. `leave` ends this process, for the launcher to go on."""

    def __init__(
        self, state: StateDirectory, api: AgentApi, folder: str, version: str, leave: Callable[[], None]
    ) -> None:
        self._state, self._api, self._folder, self._version, self._leave = state, api, folder, version, leave
        self._settled = asyncio.Event()

    async def healthy(self) -> None:
        """The control plane has answered this version: it stays."""
        update = read_update(self._state)
        if update is not None and update.stage is Stage.TRYING and update.to == self._folder:
            write_update(self._state, msgspec.structs.replace(update, stage=Stage.HEALTHY))
        self._settled.set()

    async def update(self, task_id: UUID, wanted: AgentUpdate, tell: PhaseTeller) -> UpdateResult:
        begun = read_update(self._state)
        if begun is not None and begun.task_id == task_id:
            if begun.to == self._folder:
                await self._settled.wait()
                return UpdateResult(version=begun.version, rolled_back=False)
            if begun.stage is Stage.ROLLED_BACK:
                return UpdateResult(version=self._version, rolled_back=True, reason=begun.reason)
        folder = await self._staged(wanted, tell)
        if folder == self._folder:
            return UpdateResult(version=wanted.version, rolled_back=False)
        await tell("switch", folder)
        write_update(
            self._state,
            Update(
                task_id=task_id,
                version=wanted.version,
                to=folder,
                back_to=self._folder,
                stage=Stage.TRYING,
                healthy_within_seconds=wanted.healthy_within_seconds,
            ),
        )
        switch(self._state, folder)
        self._leave()
        await asyncio.Event().wait()  # this process ends; the task goes on in the next
        raise AssertionError("unreachable")

    async def _staged(self, wanted: AgentUpdate, tell: PhaseTeller) -> str:
        """The folder with this version in it, complete: it gets its name last."""
        if not _SAFE.fullmatch(wanted.version):
            raise HostFailed("bad_version", "a version is letters, digits and . _ + -")
        versions = self._state.folder(VERSIONS)
        folder = f"{wanted.version}-{wanted.digest.removeprefix('sha256:')[:12]}"
        if (versions / folder).is_dir():
            return folder
        await tell("fetch", str(wanted.artifact_id))
        fetched, draft = versions / ".fetched", versions / ".draft"
        shutil.rmtree(draft, ignore_errors=True)
        try:
            await _fetch(self._api, wanted, fetched)
            await tell("stage", folder)
            await asyncio.to_thread(_unpack, fetched, draft, wanted.version)
        finally:
            fetched.unlink(missing_ok=True)
        for old in versions.iterdir():
            if old.name not in {folder, draft.name, self._folder}:
                shutil.rmtree(old, ignore_errors=True)
        draft.replace(versions / folder)
        sync_folder(versions)
        return folder


async def _fetch(api: AgentApi, wanted: AgentUpdate, into: Path) -> None:
    try:
        digest = await api.artifact(wanted.artifact_id, into)
    except ClientError as error:
        raise HostFailed("fetch_failed", str(error)) from error
    if digest != wanted.digest:
        raise HostFailed("digest_mismatch", f"the artifact is {digest}, not {wanted.digest}")


def _unpack(archive: Path, into: Path, version: str) -> None:
    try:
        with tarfile.open(archive) as tar:
            members = tar.getmembers()
            if len(members) > MOST_FILES or sum(member.size for member in members) > MOST_BYTES:
                raise HostFailed("artifact_too_large", "the artifact holds too much")
            into.mkdir(mode=0o700)
            for member in members:
                _unpack_one(tar, member, into)
    except (tarfile.TarError, OSError) as error:
        raise HostFailed("artifact_damaged", f"the artifact cannot be unpacked: {error}") from error
    if not os.access(into / PROGRAM, os.X_OK):
        raise HostFailed("artifact_damaged", f"the artifact has no program {PROGRAM}")
    (into / VERSION_FILE).write_text(version + "\n")


def _unpack_one(tar: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> None:
    """A file or a folder below `into`; anything else (links, devices, ways out) is refused."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise HostFailed("artifact_damaged", "the artifact reaches outside of its folder")
    target = into / name
    if member.isdir():
        target.mkdir(mode=0o755, parents=True, exist_ok=True)
        return
    content = tar.extractfile(member) if member.isreg() else None
    if content is None:
        raise HostFailed("artifact_damaged", f"{member.name[:100]} is neither a file nor a folder")
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with target.open("xb") as file:
        shutil.copyfileobj(content, file)
    target.chmod(0o755 if member.mode & 0o100 else 0o644)


class NotLaunched:
    """For an agent that nobody could bring back."""

    async def update(self, task_id: UUID, wanted: AgentUpdate, tell: PhaseTeller) -> UpdateResult:
        raise HostFailed("not_launched", "only an agent started by `gpuaas agent launch` can be replaced")


class SimulatedUpdater:
    """For a simulated host: the artifact is fetched and checked, the version is only said."""

    def __init__(self, host: SimulatedHost, api: AgentApi, folder: Path) -> None:
        self._host, self._api, self._file = host, api, folder / "artifact"

    async def update(self, task_id: UUID, wanted: AgentUpdate, tell: PhaseTeller) -> UpdateResult:
        if self._host.agent_version != wanted.version:
            await tell("fetch", str(wanted.artifact_id))
            try:
                await _fetch(self._api, wanted, self._file)
            finally:
                self._file.unlink(missing_ok=True)
        await self._host.become(wanted.version)
        return UpdateResult(version=wanted.version, rolled_back=False)
