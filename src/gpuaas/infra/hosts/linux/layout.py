"""Where things are on a Linux host, below one root, and what of it is ours."""

from dataclasses import dataclass
from pathlib import Path

OUR_UIDS = range(70_000, 80_000)
"""Uids of tenants. Outside of everything others hand out: login.defs (1000-60000), systemd-homed (60001-60513),
Debian's own (60000-64999), systemd's DynamicUser (61184-65519), sub-uids (from 100000), nspawn (from 524288)."""


@dataclass(frozen=True)
class Layout:
    root: Path = Path("/")
    homes: str = "home"
    uids: range = OUR_UIDS

    @property
    def sys(self) -> Path:
        return self.root / "sys"

    @property
    def proc(self) -> Path:
        return self.root / "proc"

    @property
    def etc(self) -> Path:
        return self.root / "etc"

    @property
    def dev(self) -> Path:
        return self.root / "dev"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def spool(self) -> Path:
        return self.root / "var/spool"

    @property
    def home_root(self) -> Path:
        return self.root / self.homes

    @property
    def linger(self) -> Path:
        return self.root / "var/lib/systemd/linger"

    def home(self, login: str) -> Path:
        return self.home_root / login

    def limits(self, login: str) -> Path:
        return self.etc / "security/limits.d" / f"60-gpuaas-{login}.conf"

    def shared_places(self) -> list[Path]:
        """Where an account can leave files though it owns nothing there, or programs leave them for it."""
        inside = ("tmp", "var/tmp", "dev/shm", "dev/mqueue", "run/lock", "run/screen", "var/spool", "var/mail")
        return [self.root / path for path in inside]
