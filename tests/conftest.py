"""Fixtures every test may ask for; what they are made of is in tests/support."""

pytest_plugins = ["tests.support.servers"]
