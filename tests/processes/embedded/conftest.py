"""Data directories the embedded servers can use, whoever runs the tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuaas.infra.embedded.home import make_temporary_directory

# What root sees cannot be seen by anybody else: those files are for runs as root, which the build's are.
collect_ignore = [] if os.geteuid() == 0 else ["test_reach.py"]


@pytest.fixture
def data_dir() -> Iterator[Path]:
    path = make_temporary_directory()
    yield path
    shutil.rmtree(path)
