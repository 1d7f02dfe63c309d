"""Data directories the embedded servers can use, whoever runs the tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuaas.infra.embedded.home import make_temporary_directory


@pytest.fixture
def data_dir() -> Iterator[Path]:
    path = make_temporary_directory()
    yield path
    shutil.rmtree(path)


@pytest.fixture
def as_root() -> None:
    """What only root can see is not shown to others; a developer's run says so by leaving it out."""
    if os.geteuid() != 0:
        pytest.skip("speaks of root")
