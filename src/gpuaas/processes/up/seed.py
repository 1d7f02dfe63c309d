"""The demo: an organisation to look at, and logins that stay the same from start to start.

Passwords are made once into DATA/demo.json, readable by its owner only. Seeding is its own short process
(`gpuaas up --seed-only`), so that `up` never loads the domains; run again it
changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_urlsafe

from gpuaas.infra.embedded.files import read_private, write_private
from gpuaas.processes.settings import Settings
from gpuaas.processes.up.errors import UpError

_WANTED = (("platform_admin", "admin@demo.example"), ("tenant_owner", "owner@demo.example"))
_PASSWORD_BYTES = 12


@dataclass(frozen=True)
class Login:
    """Somebody who can log in to the demo."""

    role: str
    email: str
    password: str


def demo_logins(data: Path) -> list[Login]:
    """The demo's logins with their passwords, made on first use and kept."""
    file = data / "demo.json"
    content = read_private(file)
    try:
        known = {entry["role"]: str(entry["password"]) for entry in json.loads(content)} if content else {}
    except (ValueError, KeyError, TypeError):
        raise UpError(f"{file} is damaged; remove it to get new demo logins") from None
    logins = [Login(role, email, known.get(role) or token_urlsafe(_PASSWORD_BYTES)) for role, email in _WANTED]
    if any(login.role not in known for login in logins):
        write_private(file, json.dumps([asdict(login) for login in logins], indent=1).encode() + b"\n")
    return logins


async def seed(settings: Settings, logins: Sequence[Login]) -> None:
    """Make the demo's organisation and people with these passwords, in one transaction, unless they exist."""
