"""The schema as PostgreSQL tells it after all migrations, without the partitions, whose names are dates."""

import re
import shutil
import subprocess

from gpuaas.infra.embedded.binaries import postgres_binaries
from gpuaas.infra.embedded.home import make_temporary_directory
from gpuaas.infra.embedded.postgres import EmbeddedPostgres
from gpuaas.infra.postgres import migrate

# pg_dump's own version and its random guard words differ from run to run.
_NOISE = re.compile(r"^(--.*|\\(un)?restrict .*|SET .*|SELECT pg_catalog\.set_config.*|)$")


def schema_sql() -> str:
    home = make_temporary_directory()
    server = EmbeddedPostgres(home, durable=False)
    try:
        urls = server.start()
        migrate.upgrade(urls.owner, app_role="gpuaas_app")
        dump = subprocess.run(
            [
                postgres_binaries().directory / "bin" / "pg_dump",
                "--schema-only",
                "--no-owner",
                "--exclude-table=*_p2*",
                "--exclude-table=alembic_version",
                urls.superuser,
            ],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
    finally:
        server.destroy()
        shutil.rmtree(home, ignore_errors=True)
    kept = [line for line in dump.splitlines() if not _NOISE.match(line)]
    text = "\n".join(kept)
    statements = re.split(r"(?<=;)\n(?=[A-Z])", text)
    return "-- Printed by `make gen` from the migrations. Never edited.\n\n" + "\n\n".join(statements)
