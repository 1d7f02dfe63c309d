"""What is shipped: a wheel that carries its migrations and names its program, and nothing that is not the product."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.tidy.rule import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    build = [str(Path(sys.executable).parent / "hatchling"), "build", "-t", "wheel", "-d", str(folder)]
    made = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_carries_every_migration(wheel: zipfile.ZipFile) -> None:
    carried = {name.removeprefix("gpuaas/_migrations/") for name in wheel.namelist() if "/_migrations/" in name}
    written = {
        str(path.relative_to(ROOT / "migrations")) for path in (ROOT / "migrations").rglob("*.*") if path.is_file()
    }
    assert {name for name in written if not name.endswith(".pyc")} <= carried


def test_the_wheel_says_it_is_typed_and_how_to_start_it(wheel: zipfile.ZipFile) -> None:
    (entry_points,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert "gpuaas/py.typed" in wheel.namelist()
    assert b"gpuaas = gpuaas.processes.cli.entry:main" in wheel.read(entry_points)


def test_the_wheel_holds_the_product_only(wheel: zipfile.ZipFile) -> None:
    roots = {name.split("/")[0] for name in wheel.namelist()}
    assert roots == {"gpuaas", next(root for root in roots if root.endswith(".dist-info"))}
