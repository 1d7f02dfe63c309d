"""Fixtures every test may ask for; what they are made of is in tests/support."""

import os
import sys

import pytest

pytest_plugins = ["tests.support.servers"]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failure when it happens: a run that is cut short has still told what it found."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        sys.stderr.write(f"\nfailed: {report.nodeid} ({report.when})\n")
