"""Which login has which uid, on disk before the account exists and until it is proven gone.

Always holds: a uid belongs to one login; it is given out again only after all others were, so that whatever a proof
might have missed meets no new owner soon."""

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from gpuaas.infra.hosts.linux.whole_file import sync_directory, write_whole
from gpuaas.kit import clock
from gpuaas.ports.host import HostFailed


class Record(msgspec.Struct, frozen=True, kw_only=True):
    login: str
    uid: int
    gpus: list[str]
    made_at: datetime
    revoking: bool = False
    suspended: bool = False


class AccountRecords:
    def __init__(self, directory: Path, uids: range) -> None:
        self._directory = directory
        self._uids = uids
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def find(self, login: str) -> Record | None:
        try:
            return msgspec.json.decode(self._file(login).read_bytes(), type=Record)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise HostFailed("record_damaged", f"what is recorded of {login} cannot be read: {error}") from None

    def all(self) -> list[Record]:
        logins = (entry.name.removesuffix(".json") for entry in os.scandir(self._directory))
        found = (self.find(login) for login in sorted(logins) if not login.startswith((".", "next")))
        return [record for record in found if record is not None]

    def save(self, record: Record) -> Record:
        write_whole(self._file(record.login), msgspec.json.encode(record))
        return record

    def forget(self, login: str) -> None:
        self._file(login).unlink(missing_ok=True)
        sync_directory(self._directory)

    def claim(self, login: str, gpus: list[str], taken: Callable[[int], bool]) -> Record:
        """A uid nobody has, recorded for this login before anything is made."""
        recorded = {record.uid for record in self.all()}
        first = self._next_uid()
        for offset in range(len(self._uids)):
            uid = self._uids[(first - self._uids.start + offset) % len(self._uids)]
            if uid not in recorded and not taken(uid):
                write_whole(self._directory / "next", str(uid + 1).encode())
                return self.save(Record(login=login, uid=uid, gpus=gpus, made_at=clock.now()))
        raise HostFailed("uids_used_up", f"no uid is free between {self._uids[0]} and {self._uids[-1]}")

    def adopt(self, login: str, uid: int, gpus: list[str]) -> Record:
        """Record an account that is there though nothing is on record: our state was lost."""
        if any(record.uid == uid for record in self.all()):
            raise HostFailed("login_not_ours", f"the uid {uid} of {login} is recorded for another login")
        return self.save(Record(login=login, uid=uid, gpus=gpus, made_at=clock.now()))

    def _next_uid(self) -> int:
        try:
            wanted = int((self._directory / "next").read_text())
        except (FileNotFoundError, ValueError):
            return self._uids.start
        return wanted if wanted in self._uids else self._uids.start

    def _file(self, login: str) -> Path:
        return self._directory / f"{login}.json"
