"""Making a PostgreSQL cluster: complete or absent, never half made.

It is built in a draft directory, given its roles, its database and its rules of entry before any
server listens, and only then renamed into place.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gpuaas.infra.embedded.account import Account
from gpuaas.infra.embedded.errors import EmbeddedError
from gpuaas.infra.embedded.home import make_owned
from gpuaas.infra.embedded.secret_file import SecretFile

POSTGRES_MAJOR = "18"
DATABASE = "gpuaas"
SUPERUSER, OWNER, APP = "postgres", "gpuaas_owner", "gpuaas_app"

_SECRET_NAMES = {role: f"{role}_password" for role in (SUPERUSER, OWNER, APP)}
_MAKE_TIMEOUT_SECONDS = 180

# Nobody is trusted for being on this machine: every way in asks for the password.
_RULES_OF_ENTRY = """\
local all all              scram-sha-256
host  all all 127.0.0.1/32 scram-sha-256
host  all all ::1/128      scram-sha-256
"""


def make_cluster(home: Path, binaries: Path, secrets: SecretFile, account: Account | None, *, durable: bool) -> Path:
    """The cluster's directory, made on first use; refused when another major version made it."""
    cluster, draft = home / "data", home / "data.new"
    if cluster.is_dir():
        _check_version(cluster)
        return cluster
    shutil.rmtree(draft, ignore_errors=True)
    make_owned(draft, account)
    initdb = [str(binaries / "bin" / "initdb"), "-D", str(draft), f"--username={SUPERUSER}", "--auth=trust"]
    initdb += ["--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"]
    _run(initdb if durable else [*initdb, "--no-sync"], account)
    single = [str(binaries / "bin" / "postgres"), "--single", "-D", str(draft), "-c", "exit_on_error=true"]
    _run([*single, "-c", f"fsync={'on' if durable else 'off'}", "postgres"], account, _bootstrap(secrets))
    (draft / "pg_hba.conf").write_text(_RULES_OF_ENTRY)
    draft.rename(cluster)
    return cluster


def passwords(secrets: SecretFile) -> dict[str, str]:
    """Each role's password; all of them must have been made with the cluster."""
    known = secrets.read()
    missing = [name for name in _SECRET_NAMES.values() if name not in known]
    if missing:
        raise EmbeddedError(f"{secrets.path} lacks {', '.join(missing)}, which the database needs: restore it")
    return {role: known[name] for role, name in _SECRET_NAMES.items()}


def _bootstrap(secrets: SecretFile) -> str:
    """Commands for a server that only we can talk to; it takes one a line."""
    password = {role: secrets.ensure(name) for role, name in _SECRET_NAMES.items()}
    return "\n".join(
        [
            f"ALTER ROLE {SUPERUSER} PASSWORD '{password[SUPERUSER]}'",
            f"CREATE ROLE {OWNER} LOGIN PASSWORD '{password[OWNER]}'",
            f"CREATE ROLE {APP} LOGIN PASSWORD '{password[APP]}'",
            f"CREATE DATABASE {DATABASE} OWNER {OWNER}",
            f"REVOKE ALL ON DATABASE {DATABASE} FROM PUBLIC",
            f"GRANT CONNECT ON DATABASE {DATABASE} TO {APP}",
            "",
        ]
    )


def _check_version(cluster: Path) -> None:
    try:
        version = (cluster / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        raise EmbeddedError(f"{cluster} is not a PostgreSQL database: remove it or choose another") from None
    if version != POSTGRES_MAJOR:
        raise EmbeddedError(
            f"{cluster} was made by PostgreSQL {version}, this is {POSTGRES_MAJOR}: "
            "dump it there and load it here, or choose another data directory"
        )


def _run(argv: Sequence[str], account: Account | None, commands: str = "") -> None:
    done = subprocess.run(
        list(argv),
        input=commands.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_MAKE_TIMEOUT_SECONDS,
        cwd="/",
        env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
        check=False,
    )
    if done.returncode != 0:
        said = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()]
        telling = [line for line in said if "error" in line.lower() or "fatal" in line.lower()] or said[-1:]
        raise EmbeddedError(f"PostgreSQL's {Path(argv[0]).name} failed: {'; '.join(telling)[:400]}")
