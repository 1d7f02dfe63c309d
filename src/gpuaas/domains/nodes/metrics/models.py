"""Rows of metrics."""

from datetime import datetime

import msgspec


class SampleRow(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    values: str
