"""`gpuaas up`, as a person runs it: ready with one command, stopped with one key, never in need of repair."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from gpuaas.infra.embedded.child import is_alive
from gpuaas.infra.embedded.home import make_temporary_directory
from gpuaas.infra.embedded.nats import EmbeddedNats
from gpuaas.infra.embedded.postgres import EmbeddedPostgres
from tests.processes.up.conftest import Up, all_processes, end, wait_until


def value(url: str, sql: str) -> object:
    async def ask() -> object:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    return asyncio.run(ask())


def status(url: str) -> int:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return int(answer.status)


def test_everything_is_ready_when_it_says_so_and_gone_when_it_ends(up):
    ready = up.start()
    assert ready["url"] == f"http://127.0.0.1:{up.port}"
    for health in ready["health_urls"].values():
        assert status(f"{health}/readyz") == 200
    assert set(ready["programs"]) == {"api", "demo-payments", "fleet", "relay", "webhooks", "worker"}
    assert set(ready["servers"]) == {"postgres", "nats"}
    assert value(ready["database_url"], "SELECT current_user") == "gpuaas_app"
    assert value(ready["database_owner_url"], "SELECT count(*) > 0 FROM alembic_version")
    assert ready["data_dir"] == str(up.data)
    assert up.ready_file.stat().st_mode & 0o777 == 0o600
    running = all_processes(ready)
    assert up.stop() == 0
    assert not up.ready_file.exists()
    assert not [name for name, process in running.items() if is_alive(process)]


@pytest.fixture(scope="module")
def running() -> Iterator[Up]:
    """One that stays up, for tests that look at it and leave it ready."""
    place = make_temporary_directory()
    shared = Up(place)
    shared.start()
    yield shared
    end(shared)
    shutil.rmtree(place)


def test_it_prints_where_it_is_and_how_to_get_in(running):
    ready, said = running.ready(), running.said()
    for part in ("postgres", "nats", "database", "api", "relay", "worker", "webhooks", "payments", "demo"):
        assert f"✓ {part} " in said
    for expected in (ready["url"], f"{ready['url']}/api/docs", f"gpuaas login --url {ready['url']}"):
        assert expected in said
    assert {login["role"] for login in ready["logins"]} == {"platform_admin", "tenant_owner"}
    for login in ready["logins"]:
        assert login["email"] in said
        assert login["password"] in said
    assert "\x1b" not in said


def test_a_second_start_has_the_same_logins_and_address(up):
    """How long it takes is measured in bench/start.py."""
    first = up.start()
    up.stop(signal.SIGTERM)
    second = up.start(port=False)
    assert second["logins"] == first["logins"]
    assert second["url"] == first["url"]
    assert second["database_url"] == first["database_url"]


def test_it_stops_programs_before_the_servers_they_need(up):
    up.start()
    up.stop()
    for program in ("api", "worker", "relay"):
        log = (up.data / "logs" / f"{program}.log").read_text()
        assert "Traceback" not in log
        assert "connection refused" not in log.lower()


def test_after_kill_9_the_next_start_recovers_by_itself(up):
    ready = up.start()
    value(ready["database_owner_url"], "CREATE TABLE kept AS SELECT 42 AS answer")
    before = all_processes(ready)
    up.stop(signal.SIGKILL)
    again = up.start()
    assert value(again["database_owner_url"], "SELECT answer FROM kept") == 42
    assert not [name for name, process in before.items() if is_alive(process)]
    assert again["logins"] == ready["logins"]


def test_after_kill_9_of_everything_at_once_the_next_start_recovers(up):
    ready = up.start()
    for pid in (*ready["programs"].values(), *ready["servers"].values()):
        os.kill(pid, signal.SIGSTOP)  # nobody can react to the death of the others
    assert up.process is not None
    up.process.kill()
    up.process.wait()
    for pid in (*ready["programs"].values(), *ready["servers"].values()):
        os.kill(pid, signal.SIGKILL)
    assert up.start()["url"] == ready["url"]


def test_programs_that_outlive_a_killed_run_are_ended_by_the_next(up):
    ready = up.start()
    before = all_processes(ready)
    for name in ready["programs"]:
        os.kill(before[name].pid, signal.SIGSTOP)  # they hear of the death only after they are let go
    up.stop(signal.SIGKILL)
    wait_until(lambda: not is_alive(before["postgres"]), "the kernel tells the servers")
    up.ready_file.unlink()
    up.launch()
    for name in ready["programs"]:
        assert is_alive(before[name])
        os.kill(before[name].pid, signal.SIGCONT)
    up.wait_ready()
    assert not [name for name, process in before.items() if is_alive(process)]


@pytest.mark.parametrize("name", ["api", "relay", "worker", "webhooks", "demo-payments", "nats", "postgres"])
def test_a_part_that_is_killed_is_started_again_and_the_ready_file_stays_true(running, name):
    ready = running.ready()
    kind = "servers" if name in ready["servers"] else "programs"
    os.kill(ready[kind][name], signal.SIGKILL)
    wait_until(lambda: f"{name} is ready again" in running.said(), f"{name} comes back")
    assert f"{name} ended (signal SIGKILL); starting it again" in running.said()
    assert running.ready()[kind][name] != ready[kind][name]
    wait_until(lambda: _all_ready(running), "every program is ready again")


def _all_ready(up: Up) -> bool:
    try:
        return all(status(f"{health}/readyz") == 200 for health in up.ready()["health_urls"].values())
    except OSError:
        return False


def test_a_part_that_keeps_dying_ends_the_run_with_one_line_and_the_end_of_its_log(up):
    ready = up.start()
    running = all_processes(ready)
    assert up.process is not None
    killed = 0
    while up.process.poll() is None:
        pid = up.ready()["programs"]["relay"] if up.ready_file.exists() else killed
        if pid != killed:
            os.kill(pid, signal.SIGKILL)
            killed = pid
        time.sleep(0.05)
    assert up.process.returncode == 1
    assert "gpuaas up: relay ended 6 times within a minute (signal SIGKILL);" in up.said()
    assert f"{up.data / 'logs' / 'relay.log'} ends with:" in up.said()
    assert not up.ready_file.exists()
    assert not [name for name, process in running.items() if is_alive(process)]


def test_without_the_demo_there_are_no_logins_and_nohup_keeps_it_running(up):
    ready = up.start("--no-demo", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert ready["logins"] == []
    assert not (up.data / "demo.json").exists()
    assert up.process is not None
    up.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert up.process.poll() is None
    assert up.ready_file.exists()


def test_without_nohup_a_terminal_that_goes_away_stops_everything(up):
    running = all_processes(up.start(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)))
    assert up.stop(signal.SIGHUP) == 0
    assert not [name for name, process in running.items() if is_alive(process)]


def test_on_a_terminal_progress_moves_and_leaves_clean_lines(up):
    controller, terminal = os.openpty()
    up.process = subprocess.Popen(up.command(), stdout=terminal, stderr=terminal, env=up.environment(), cwd=up.place)
    os.close(terminal)
    seen = b""
    while b"Ctrl-C stops everything." not in seen:
        seen += os.read(controller, 4096)
    up.stop()
    os.close(controller)
    assert "⠙".encode() in seen
    shown = [line.rpartition("\x1b[K")[2].rstrip() for line in seen.decode().split("\n")]
    assert any(line.startswith("  ✓ postgres ") for line in shown)
    assert not any("\r" in line or "…" in line for line in shown)


def test_two_run_side_by_side_on_one_machine(running, up):
    assert up.start()["url"] != running.ready()["url"]
    assert _all_ready(running)
    up.stop()
    assert _all_ready(running)


def test_a_second_run_on_the_same_data_is_refused_in_one_line(running):
    code, out, err = running.run()
    assert code == 1
    holder = f"(process {running.ready()['pid']})"
    assert err == f"gpuaas up: the data directory {running.data} is in use by another start {holder}\n"
    assert out == ""
    assert _all_ready(running)


def test_an_asked_port_in_use_is_refused_in_one_line(up):
    with socket.create_server(("127.0.0.1", up.port)):
        code, _, err = up.run()
    assert code == 1
    assert err == f"gpuaas up: port {up.port} on 127.0.0.1 is already in use: choose another with --port\n"


def test_the_default_port_in_use_is_replaced_by_the_next_free_one(up):
    with socket.socket() as busy:
        busy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            busy.bind(("127.0.0.1", 8080))
            busy.listen()
        except OSError:
            pass  # somebody else has it: as good
        ready = up.start(port=False)
    port = int(ready["url"].rpartition(":")[2])
    assert 8080 < port < 8180
    assert f"port 8080 is in use, taking {port}" in up.said()


def test_servers_named_by_settings_are_used_and_left_running(up, place):
    outside = place / "outside"
    with EmbeddedPostgres(outside, durable=False) as urls, EmbeddedNats(outside, durable=False) as nats_url:
        owner_file = place / "owner-url"
        owner_file.write_text(urls.owner)
        owner_file.chmod(0o600)
        env = {"GPUAAS_DATABASE_URL": urls.app, "GPUAAS_NATS_URL": nats_url}
        ready = up.start(env=env | {"GPUAAS_DATABASE_OWNER_URL_FILE": str(owner_file)})
        assert (ready["database_url"], ready["nats_url"]) == (urls.app, nats_url)
        assert ready["servers"] == {}
        assert not (up.data / "postgres").exists()
        up.stop()
        assert value(urls.app, "SELECT 1") == 1
        up.start(env=env)  # at this version's schema already: the owner is not needed
        up.stop()


def test_a_database_without_our_schema_and_without_its_owner_is_refused(up, place):
    outside = place / "outside"
    with EmbeddedPostgres(outside, durable=False) as urls:
        code, _, err = up.run(env={"GPUAAS_DATABASE_URL": urls.app})
    assert code == 1
    assert err.startswith("gpuaas up: the database is at migration none, this version needs")
    assert "GPUAAS_DATABASE_OWNER_URL" in err


def test_no_program_gets_the_owners_way_into_the_database(running):
    ready = running.ready()
    for name, pid in ready["programs"].items():
        environment = Path(f"/proc/{pid}/environ").read_text()
        outside = name in ("fleet", "demo-payments")
        assert (ready["database_url"] in environment) != outside, (
            "the fleet is other machines, the provider others' house"
        )
        assert "OWNER" not in environment
        assert "gpuaas_owner" not in environment


def test_only_the_worker_gets_what_signs_tasks(running):
    """Whoever takes over another program cannot ask anything of a node."""
    with_key = {
        name
        for name, pid in running.ready()["programs"].items()
        if b"GPUAAS_TASK_SIGNING_KEY=" in Path(f"/proc/{pid}/environ").read_bytes()
    }
    assert with_key == {"worker"}
    assert "task_signing_key" in json.loads((running.data / "secrets.json").read_text())


def test_a_second_ctrl_c_forces_the_end(up):
    ready = up.start()
    running = all_processes(ready)
    os.kill(running["api"].pid, signal.SIGSTOP)  # it will not stop by itself
    assert up.process is not None
    up.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert up.process.poll() is None
    assert up.stop() == 130
    assert not [name for name, process in running.items() if is_alive(process)]


def test_ctrl_c_while_starting_leaves_nothing_running(up):
    up.launch()
    wait_until(lambda: "✓ postgres" in up.said(), "postgres starts")
    assert up.stop() == 0
    listed = subprocess.run(["ps", "axww", "-o", "command"], capture_output=True, text=True, check=True).stdout
    assert str(up.data) not in listed


def test_it_runs_on_when_nobody_reads_what_it_says(up):
    read, write = os.pipe()
    process = subprocess.Popen(up.command(), stdout=write, env=up.environment(), cwd=up.place)
    os.close(write)
    os.close(read)
    up.process = process
    up.wait_ready()
    assert up.stop() == 0


class TestClearRefusals:
    """Each is one line on stderr and exit 1; nothing is left running or changed."""

    def refused(self, up: Up, *extra: str, **env: str) -> str:
        code, _, err = up.run(*extra, env=env)
        assert code == 1
        assert err.startswith("gpuaas up: ")
        assert err.count("\n") == 1
        return err

    def test_a_data_directory_that_cannot_be_made(self, up):
        up.data = Path("/proc/nowhere")
        assert "cannot write to the data directory /proc/nowhere" in self.refused(up)

    def test_a_data_directory_that_is_a_file(self, up):
        up.data.write_text("")
        assert str(up.data) in self.refused(up)

    def test_data_of_another_layout(self, up):
        up.data.mkdir()
        (up.data / "layout.json").write_text(json.dumps({"layout": 999}))
        assert "has layout 999, this version reads 1" in self.refused(up)

    def test_secrets_others_may_read(self, up):
        up.data.mkdir()
        (up.data / "secrets.json").write_text("{}")
        (up.data / "secrets.json").chmod(0o644)
        assert "may be read by others" in self.refused(up)

    def test_demo_passwords_others_may_read(self, up):
        up.data.mkdir()
        (up.data / "demo.json").write_text("[]")
        (up.data / "demo.json").chmod(0o644)
        assert "may be read by others" in self.refused(up)

    def test_a_ready_file_that_cannot_be_written(self, up):
        up.ready_file = Path("/proc/ready.json")
        assert "cannot write the ready file" in self.refused(up)

    def test_a_setting_that_is_wrong(self, up):
        assert "GPUAAS_LOG_LEVEL" in self.refused(up, GPUAAS_LOG_LEVEL="loud")
        assert "GPUAAS_MASTER_KEY" in self.refused(up, GPUAAS_MASTER_KEY="short")
        assert "GPUAAS_DATABASE_URL" in self.refused(up, GPUAAS_DATABASE_URL="mysql://x")

    def test_a_database_that_does_not_answer(self, up):
        silent = "postgresql://gpuaas_app:x@127.0.0.1:1/gpuaas"
        err = self.refused(up, GPUAAS_DATABASE_URL=silent, GPUAAS_DATABASE_OWNER_URL=silent)
        assert "the database cannot be" in err

    def test_an_address_that_is_not_ours(self, up):
        assert "cannot listen on 192.0.2.1" in self.refused(up, GPUAAS_HOST="192.0.2.1")
