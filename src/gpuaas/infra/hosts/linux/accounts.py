"""Accounts of tenants, as verbs: made, closed for a while, taken away with a proof, refused while the host drains.

Always holds: a uid is on record from before its account exists until nothing of it is left, so a crash anywhere leaves
something the same verb can finish; a login is checked against its pattern before anything is done with it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from gpuaas.contracts.tasks.catalogue import (
    AccountResult,
    Leftovers,
    Login,
    RevokeResult,
    Running,
    SuspendResult,
    UserProvision,
)
from gpuaas.infra.hosts.linux.account_database import LOCKED, NO_PASSWORD, AccountDatabase, Entry
from gpuaas.infra.hosts.linux.account_records import AccountRecords, Record
from gpuaas.infra.hosts.linux.files_of_uid import FilesOfUid
from gpuaas.infra.hosts.linux.home import home_is_there, make_home, read_keys, remove_home, write_keys
from gpuaas.infra.hosts.linux.interprocess import ipc_of, remove_ipc
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.infra.hosts.linux.processes import end_processes, processes_of
from gpuaas.infra.hosts.linux.timers import end_sessions, remove_timers, sessions_of, timers_of
from gpuaas.infra.hosts.linux.whole_file import write_whole
from gpuaas.ports.host import HostFailed, PhaseTeller

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Terms:
    """What every account gets."""

    shell: str = "/bin/bash"
    processes: int = 4096
    open_files: int = 65_536
    address: str = ""
    ssh_port: int = 22


GpuAccess = Callable[[dict[str, int]], None]
"""Open each GPU, by its serial number, to the account of this uid, and all others to nobody."""


class Accounts:
    def __init__(self, layout: Layout, state: Path, terms: Terms, gpu_access: GpuAccess | None = None) -> None:
        self._layout = layout
        self._gpu_access = gpu_access or (lambda holders: None)
        self._terms = terms
        self._database = AccountDatabase(layout)
        self._records = AccountRecords(state / "accounts", layout.uids)
        self._files = FilesOfUid(layout)
        self._scratch = state / "mqueue"
        self._draining = state / "drained"
        self._changing = asyncio.Lock()

    async def logins(self) -> list[str]:
        """Those that can log in, and those that are not proven gone."""

        def look() -> list[str]:
            made = {entry.login for entry in self._database.ours()}
            return sorted(made | {record.login for record in self._records.all()})

        return await _apart(look)

    def holders(self) -> dict[str, int]:
        """By serial number, the uid of the account that has the GPU. One that is being taken away has none."""
        return {serial: record.uid for record in self._records.all() if not record.revoking for serial in record.gpus}

    def openers(self) -> dict[str, int]:
        """The same, of the accounts that may open theirs now: not those that are suspended."""
        closed = {record.uid for record in self._records.all() if record.suspended}
        return {serial: uid for serial, uid in self.holders().items() if uid not in closed}

    async def provision(self, login: str, ssh_keys: list[str], gpus: list[str], tell: PhaseTeller) -> AccountResult:
        wanted = _checked({"login": login, "ssh_keys": ssh_keys, "gpus": gpus})
        record = await _apart(lambda: self._records.find(wanted.login))
        if record is not None and record.revoking:
            await tell("finishing_revocation", f"{login} was being taken away")
            await self.revoke(login, tell)
        async with self._changing:
            record = await _apart(lambda: self._claim(wanted))
            await tell("recorded", f"uid {record.uid}")
            await _apart(lambda: self._make(record))
        await tell("account_made", login)
        await _apart(lambda: make_home(self._layout, login, record.uid))
        await tell("home_made", str(self._layout.home(login)))
        await _apart(lambda: write_keys(self._layout, login, record.uid, wanted.ssh_keys))
        await tell("keys_written", f"{len(wanted.ssh_keys)} keys")
        await _apart(lambda: self._limit(login))
        await tell("limits_written", f"{self._terms.processes} processes")
        async with self._changing:
            await _apart(lambda: self._gpu_access(self.openers()))
            await tell("gpus_opened", f"{len(wanted.gpus)} GPUs")
            await _apart(lambda: self._open(login))
        await _apart(lambda: self._prove_made(record, wanted.ssh_keys))
        await tell("proven", "it can log in")
        return AccountResult(
            uid=record.uid,
            home=str(self._layout.home(login)),
            host_keys=await _apart(self._host_keys),
            address=self._terms.address,
            port=self._terms.ssh_port,
        )

    async def revoke(self, login: str, tell: PhaseTeller) -> RevokeResult:
        _login(login)
        async with self._changing:
            record, existed = await _apart(lambda: self._begin_revocation(login))
        if record is None:
            await tell("proven", "it was never here")
            nothing = Leftovers(processes=0, files=0, timers=0, ipc=0, sessions=0)
            return RevokeResult(existed=False, ended_processes=0, left=nothing)
        uid = record.uid
        await tell("locked", f"uid {uid}")
        await _apart(lambda: remove_timers(self._layout, login, uid))
        await tell("timers_removed", "")
        ended = await _apart(lambda: end_processes(self._layout, uid))
        await tell("processes_ended", f"{ended} processes")
        async with self._changing:
            await _apart(lambda: self._gpu_access(self.openers()))
        await tell("gpus_closed", f"{len(record.gpus)} GPUs")
        await _apart(lambda: self._clean(login, uid))
        await tell("files_removed", "")
        async with self._changing:
            await _apart(lambda: self._database.remove(login))
        await tell("account_removed", "")
        # Whatever slipped in while the account still had a name finds no second chance now.
        ended += await _apart(lambda: end_processes(self._layout, uid))
        await _apart(lambda: self._clean(login, uid))
        left = await _apart(lambda: self._leftovers(login, uid))
        if any(msgspec.structs.astuple(left)):
            raise HostFailed("leftovers", f"of {login} (uid {uid}) there are left: {_spoken(left)}")
        await _apart(lambda: self._records.forget(login))
        await tell("proven", "nothing is left")
        return RevokeResult(existed=existed, ended_processes=ended, left=left)

    async def suspend(self, login: str, tell: PhaseTeller) -> SuspendResult:
        """Closed first, then emptied of all that runs: what is left in its home opens nothing."""
        _login(login)
        async with self._changing:
            record, existed = await _apart(lambda: self._begin_suspension(login))
        if record is None:
            await tell("proven", "it was never here")
            return SuspendResult(existed=False, ended_processes=0, left=_nothing())
        uid = record.uid
        await tell("locked", f"uid {uid}")
        await _apart(lambda: remove_timers(self._layout, login, uid))
        await tell("timers_removed", "")
        ended = await _apart(lambda: end_processes(self._layout, uid))
        await tell("processes_ended", f"{ended} processes")
        async with self._changing:
            await _apart(lambda: self._gpu_access(self.openers()))
        await tell("gpus_closed", f"{len(record.gpus)} GPUs")
        await _apart(lambda: self._quieten(login, uid))
        ended += await _apart(lambda: end_processes(self._layout, uid))
        await tell("keys_removed", "")
        left = await _apart(lambda: self._running(login, uid))
        if any(msgspec.structs.astuple(left)):
            raise HostFailed("still_running", f"of {login} (uid {uid}) there are left: {_spoken(left)}")
        await _apart(lambda: self._prove_closed(login))
        await tell("proven", "no way in, nothing runs")
        return SuspendResult(existed=existed, ended_processes=ended, left=left)

    async def drain(self, *, drained: bool) -> None:
        """Accounts of ours expire, or are no longer expired; sessions that run go on."""

        def change() -> None:
            if drained:
                write_whole(self._draining, b"drained\n")
            for entry in self._database.ours():
                record = self._records.find(entry.login)
                if record is None or not (record.revoking or record.suspended):
                    self._database.expire(entry.login, expired=drained)
            if not drained:
                self._draining.unlink(missing_ok=True)

        async with self._changing:
            await _apart(change)

    def _claim(self, wanted: UserProvision) -> Record:
        entry, record = self._database.find(wanted.login), self._records.find(wanted.login)
        if entry is not None and (entry.uid not in self._layout.uids or entry.uid != (record or entry).uid):
            raise HostFailed("login_not_ours", f"{wanted.login} is an account of somebody else (uid {entry.uid})")
        if entry is None and self._draining.exists():
            raise HostFailed("drained", "this host takes no new accounts now")
        uid, holders = record.uid if record is not None else -1, self.holders()
        if taken := [serial for serial in wanted.gpus if holders.get(serial, uid) != uid]:
            raise HostFailed("gpu_in_use", f"another account has {', '.join(taken)[:500]}")
        if record is None:
            if entry is None:
                return self._records.claim(wanted.login, wanted.gpus, self._uid_taken)
            return self._records.adopt(wanted.login, entry.uid, wanted.gpus)
        return self._records.save(msgspec.structs.replace(record, gpus=wanted.gpus, suspended=False))

    def _uid_taken(self, uid: int) -> bool:
        return self._database.taken(uid) or bool(processes_of(self._layout, uid))

    def _make(self, record: Record) -> None:
        entry = self._database.find(record.login)
        if entry is not None and (entry.password is None or entry.gid != record.uid or self._misplaced(entry)):
            self._database.remove(record.login)  # half there: a crash in the middle of making or removing it
            entry = None
        if entry is None:
            self._database.add(record.login, record.uid, self._layout.home(record.login), self._terms.shell)

    def _misplaced(self, entry: Entry) -> bool:
        return entry.home != str(self._layout.home(entry.login))

    def _open(self, login: str) -> None:
        entry, drained = self._database.find(login), self._draining.exists()
        if entry is None:
            raise HostFailed("account_gone", f"{login} vanished while it was made")
        expired = "1" if drained else ""
        if (entry.password, entry.expires, entry.shell) != (NO_PASSWORD, expired, self._terms.shell):
            self._database.open(login, self._terms.shell, expired=drained)

    def _limit(self, login: str) -> None:
        path = self._layout.limits(login)
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        limits = [("nproc", self._terms.processes), ("nofile", self._terms.open_files), ("core", 0)]
        lines = [f"{login} hard {name} {value}\n{login} soft {name} {value}\n" for name, value in limits]
        write_whole(path, "".join(lines).encode(), mode=0o644)

    def _prove_made(self, record: Record, ssh_keys: list[str]) -> None:
        entry = self._database.find(record.login)
        if entry is None or entry.uid != record.uid or entry.password != NO_PASSWORD:
            raise HostFailed("not_made", f"the account {record.login} is not as it was made")
        status = self._layout.home(record.login).lstat()
        if (status.st_uid, status.st_mode & 0o777) != (record.uid, 0o700):
            raise HostFailed("not_made", f"the home of {record.login} is not closed to others")
        if read_keys(self._layout, record.login) != ssh_keys:
            raise HostFailed("not_made", f"the keys of {record.login} are not the ones that were written")

    def _begin_revocation(self, login: str) -> tuple[Record | None, bool]:
        entry, record = self._database.find(login), self._records.find(login)
        if entry is not None and (entry.uid not in self._layout.uids or entry.uid != (record or entry).uid):
            raise HostFailed("login_not_ours", f"{login} is an account of somebody else (uid {entry.uid})")
        if record is None and entry is not None:
            record = self._records.adopt(login, entry.uid, [])
        if record is not None and not record.revoking:
            self._records.save(msgspec.structs.replace(record, revoking=True))
        if entry is not None and entry.password is not None and not entry.password.startswith(LOCKED):
            self._database.lock(login)
        return record, entry is not None

    def _begin_suspension(self, login: str) -> tuple[Record | None, bool]:
        entry, record = self._database.find(login), self._records.find(login)
        if entry is not None and (entry.uid not in self._layout.uids or entry.uid != (record or entry).uid):
            raise HostFailed("login_not_ours", f"{login} is an account of somebody else (uid {entry.uid})")
        if record is not None and record.revoking:
            raise HostFailed("revoking", f"{login} is being taken away")
        if record is None and entry is not None:
            record = self._records.adopt(login, entry.uid, [])
        if record is not None and not record.suspended:
            self._records.save(msgspec.structs.replace(record, suspended=True))
        if entry is not None and entry.password is not None and not entry.password.startswith(LOCKED):
            self._database.lock(login)
        return record, entry is not None

    def _quieten(self, login: str, uid: int) -> None:
        end_sessions(self._layout, login, uid)
        remove_timers(self._layout, login, uid)
        remove_ipc(self._layout, uid, self._scratch)
        if home_is_there(self._layout, login):
            write_keys(self._layout, login, uid, [])

    def _running(self, login: str, uid: int) -> Running:
        return Running(
            processes=len(processes_of(self._layout, uid)),
            timers=len(timers_of(self._layout, login, uid)),
            ipc=ipc_of(self._layout, uid, self._scratch),
            sessions=sessions_of(self._layout, uid),
        )

    def _prove_closed(self, login: str) -> None:
        entry = self._database.find(login)
        if entry is not None and (entry.password is None or not entry.password.startswith(LOCKED) or not entry.expires):
            raise HostFailed("not_closed", f"the account {login} is open")
        if home_is_there(self._layout, login) and read_keys(self._layout, login):
            raise HostFailed("not_closed", f"there are keys of {login}")

    def _clean(self, login: str, uid: int) -> None:
        end_sessions(self._layout, login, uid)
        remove_timers(self._layout, login, uid)
        remove_ipc(self._layout, uid, self._scratch)
        remove_home(self._layout, login)
        self._layout.limits(login).unlink(missing_ok=True)
        (self._layout.root / "var/mail" / login).unlink(missing_ok=True)
        self._files.remove(uid)

    def _leftovers(self, login: str, uid: int) -> Leftovers:
        named = [self._layout.limits(login), self._layout.root / "var/mail" / login]
        files = self._files.count(uid) + home_is_there(self._layout, login) + sum(path.exists() for path in named)
        return Leftovers(
            processes=len(processes_of(self._layout, uid)),
            files=files + self._database.remains(login),
            timers=len(timers_of(self._layout, login, uid)),
            ipc=ipc_of(self._layout, uid, self._scratch),
            sessions=sessions_of(self._layout, uid),
        )

    def _host_keys(self) -> list[str]:
        files = sorted((self._layout.etc / "ssh").glob("ssh_host_*_key.pub"))
        return [" ".join(file.read_text().split()[:2]) for file in files]


def _checked(arguments: dict[str, object]) -> UserProvision:
    try:
        return msgspec.convert(arguments, UserProvision)
    except msgspec.ValidationError as error:
        raise HostFailed("bad_arguments", str(error)) from None


def _login(login: str) -> str:
    try:
        return msgspec.convert(login, Login)
    except msgspec.ValidationError as error:
        raise HostFailed("bad_arguments", f"no login of ours: {error}") from None


def _nothing() -> Running:
    return Running(processes=0, timers=0, ipc=0, sessions=0)


def _spoken(left: Leftovers | Running) -> str:
    counts = msgspec.structs.asdict(left).items()
    return ", ".join(f"{count} {name}" for name, count in counts if count)


async def _apart(work: Callable[[], _Answer]) -> _Answer:
    """In a thread: files and programs are waited for there. What the system refuses is the host's failure."""
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise HostFailed("host_refused", f"{error.strerror}: {error.filename!r}") from error
