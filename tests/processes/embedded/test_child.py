"""Processes, files and locks: what recovery rests on."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from gpuaas.infra.embedded.child import boot_id, end, identify, is_alive, spawn
from gpuaas.infra.embedded.errors import EmbeddedError
from gpuaas.infra.embedded.files import write_private
from gpuaas.infra.embedded.lock import ExclusiveLock
from gpuaas.infra.embedded.logs import last_lines, open_log
from gpuaas.infra.embedded.ports import free_port, port_is_free
from gpuaas.infra.embedded.secret_file import SecretFile

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"


def test_a_process_number_used_again_is_somebody_else():
    with subprocess.Popen(["sleep", "60"]) as process:
        identity = identify(process.pid)
        assert identity is not None
        for other in (replace(identity, started_ticks=identity.started_ticks - 1), replace(identity, boot="x")):
            assert not is_alive(other)
            assert end(other, [(signal.SIGKILL, 1.0)])
        assert process.poll() is None
        assert end(identity, [(signal.SIGTERM, 5.0)])


def test_an_ended_process_nobody_collected_is_not_alive():
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert identify(process.pid) is None


def test_one_who_ignores_the_first_signal_gets_the_next():
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        identity = identify(process.pid)
        assert identity is not None
        assert not end(identity, [(signal.SIGTERM, 0.2)])
        assert end(identity, [(signal.SIGTERM, 0.2), (signal.SIGKILL, 5.0)])


def test_a_child_does_not_share_our_terminal_signals(tmp_path):
    child = spawn(["sleep", "60"], log=tmp_path / "log", cwd=tmp_path, env=os.environ)
    try:
        assert os.getsid(child.pid) != os.getsid(0)
    finally:
        child.kill()
        child.wait()


def test_a_lock_dies_with_its_holder_and_names_it_meanwhile(tmp_path):
    code = """
import sys, time
from pathlib import Path
from gpuaas.infra.embedded.lock import ExclusiveLock
with ExclusiveLock(Path(sys.argv[1]), "it"):
    print(1, flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code, tmp_path / "lock"], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(EmbeddedError, match=rf"it is in use by another start \(process {holder.pid}\)"):
            ExclusiveLock(tmp_path / "lock", "it").acquire()
        holder.kill()
        holder.wait()
        with ExclusiveLock(tmp_path / "lock", "it"):
            pass


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "target").write_text("precious")
    (tmp_path / "lock").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic"):
        ExclusiveLock(tmp_path / "lock", "it").acquire()
    assert (tmp_path / "target").read_text() == "precious"


def test_a_secret_is_made_once_also_by_many_at_once(tmp_path):
    secrets = [SecretFile(tmp_path / "secrets.json") for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda file: file.ensure("x"), secrets))
    assert len(made) == 1
    assert json.loads((tmp_path / "secrets.json").read_text()) == {"x": made.pop()}


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_secrets_are_private_from_the_start_and_refused_once_they_are_not(tmp_path, mode):
    file = SecretFile(tmp_path / "secrets.json")
    file.ensure("x")
    assert file.path.stat().st_mode & 0o777 == 0o600
    file.path.chmod(mode)
    with pytest.raises(EmbeddedError, match="chmod 600"):
        file.ensure("x")


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": 1}', "\xff"])
def test_damaged_secrets_are_refused_not_overwritten(tmp_path, content):
    write_private(tmp_path / "secrets.json", content.encode("latin-1"))
    with pytest.raises(EmbeddedError, match="damaged"):
        SecretFile(tmp_path / "secrets.json").ensure("x")
    assert (tmp_path / "secrets.json").read_bytes() == content.encode("latin-1")


def test_a_large_log_is_put_aside_at_start_and_one_old_one_is_kept(tmp_path):
    log = open_log(tmp_path, "api", largest_bytes=10)
    log.write_text("first run, long enough")
    assert open_log(tmp_path, "api", largest_bytes=10).read_text() == ""
    log.write_text("second run, long enough")
    open_log(tmp_path, "api", largest_bytes=10)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["api.log", "api.log.1"]
    assert (tmp_path / "api.log.1").read_text() == "second run, long enough"


def test_quoted_log_lines_are_short_few_and_harmless_to_a_terminal(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"old\n" * 5000 + b"\x1b]0;owned\x07 bad\xff\n\n" + b"x" * 5000 + b"\n")
    lines = last_lines(log, 2)
    assert lines[0] == " ]0;owned  bad\N{REPLACEMENT CHARACTER}"
    assert lines[1] == "x" * 300
    assert last_lines(tmp_path / "absent", 3) == []


def test_a_port_somebody_listens_on_is_not_free_and_never_chosen():
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        assert not port_is_free(taken)
        assert free_port(preferred=taken) != taken
    with socket.create_server(("0.0.0.0", 0)) as server:
        assert not port_is_free(server.getsockname()[1])


def test_boots_are_told_apart():
    assert boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
