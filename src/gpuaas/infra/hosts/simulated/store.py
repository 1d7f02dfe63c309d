"""A simulated host's reality, on disk: a restarted agent finds what was there. One small file, replaced whole."""

import os
from pathlib import Path

import msgspec

from gpuaas.contracts.tasks.topology import GpuFault
from gpuaas.kit.ids import new_id

MOST_EFFECTS = 500
MOST_FAULTS = 200


class Account(msgspec.Struct):
    login: str
    home: str
    ssh_keys: list[str]
    gpus: list[str]
    suspended: bool = False


class Reality(msgspec.Struct):
    """`effects` is the host's own diary: one line for each thing that really changed."""

    seed: str
    boot_id: str
    host_key: str = ""
    drained: bool = False
    agent_version: str = ""
    image: int = 1
    """How often the system was installed."""
    touched: bool = True
    """Somebody may have had an account since; nobody knows it of a host that is new here."""
    image_refused: bool = False
    """The installer fails."""
    accounts: dict[str, Account] = msgspec.field(default_factory=dict)
    used: dict[str, str] = msgspec.field(default_factory=dict)
    """GPU → the login that has written to it since it was cleaned."""
    lost: dict[str, str] = msgspec.field(default_factory=dict)
    unhealthy: list[str] = msgspec.field(default_factory=list)
    """Serials whose checks fail; '*' is the host."""
    stubborn: list[str] = msgspec.field(default_factory=list)
    """Serials that refuse a reset."""
    busy: dict[str, float] = msgspec.field(default_factory=dict)
    """GPU → how many percent of it somebody uses; the others idle."""
    skew_seconds: float = 0.0
    faults: list[GpuFault] = msgspec.field(default_factory=list)
    effects: list[str] = msgspec.field(default_factory=list)


class RealityStore:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = directory / "host.json"
        try:
            self.now = msgspec.json.decode(self._file.read_bytes(), type=Reality)
        except FileNotFoundError:
            self.now = Reality(seed=str(new_id()), boot_id=str(new_id()))
            self.save()

    def save(self, effect: str = "") -> None:
        """Keep what is true now, with a line in the diary if something really changed."""
        if effect:
            self.now.effects.append(effect)
            del self.now.effects[:-MOST_EFFECTS]
        del self.now.faults[:-MOST_FAULTS]
        draft = self._file.with_name(".host.json")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(self.now))
        draft.replace(self._file)
