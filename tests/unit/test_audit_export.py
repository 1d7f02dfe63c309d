"""Audit rows as files: nothing a spreadsheet calculates, nothing that breaks a line, addresses as policy allows."""

import csv
import io
import json
from datetime import UTC, datetime
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.domains.audit.addresses import shown
from gpuaas.domains.audit.export import COLUMNS, csv_header, csv_lines, json_lines
from gpuaas.domains.audit.models import SealedEntry
from gpuaas.kit.spreadsheet import neutral

ENTRY = SealedEntry(
    id=UUID(int=1),
    at=datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC),
    action="a.b",
    operation="a_b",
    actor_kind="user",
    actor_id=None,
    actor_name="ada",
    org_id=UUID(int=2),
    project_id=None,
    subject_id=None,
    correlation_id="c",
    client_ip="192.0.2.1",
    details='{"a": [1, "x"]}',
    seq=7,
    version=1,
    prev_hash=b"\1" * 32,
    hash=b"\2" * 32,
)


@pytest.mark.parametrize(
    "evil",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        " =1",
        "  @x",
        "=cmd|' /C calc'!A0",
        "|x",
        "%x",
        "＝1",
        "－1",
    ],
)
def test_a_formula_becomes_text(evil):
    assert neutral(evil) == "'" + evil


@pytest.mark.parametrize("plain", ["", "ada", "192.0.2.1", '{"a": 1}', "a=b", "user@example.com", "1-2"])
def test_other_text_stays(plain):
    assert neutral(plain) == plain


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30))
def test_whatever_a_name_is_it_stays_in_its_cell(name):
    written = (csv_header() + csv_lines([msgspec.structs.replace(ENTRY, actor_name=name)])).decode()
    rows = list(csv.reader(io.StringIO(written, newline="")))
    assert rows[0] == list(COLUMNS)
    assert len(rows) == 2
    assert dict(zip(*rows, strict=True))["actor_name"].removeprefix("'") == name.removeprefix("'")


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_json_line_is_one_line_and_reads_back(name):
    written = json_lines([msgspec.structs.replace(ENTRY, actor_name=name)] * 2)
    lines = written.split(b"\n")
    assert len(lines) == 3
    read = json.loads(lines[0])
    assert (read["actor_name"], read["details"], read["seq"], read["hash"]) == (name, {"a": [1, "x"]}, 7, "02" * 32)
    assert list(read) == list(COLUMNS)


@pytest.mark.parametrize(
    ("address", "how", "seen"),
    [
        ("192.0.2.77", "full", "192.0.2.77"),
        ("192.0.2.77", "network", "192.0.2.0/24"),
        ("192.0.2.77", "hidden", ""),
        ("2001:db8:1:2::5", "network", "2001:db8:1::/48"),
        ("unix", "network", ""),
        ("unix", "full", "unix"),
        ("", "network", ""),
        ("192.0.2.77", "unheard-of", ""),
    ],
)
def test_addresses_are_shown_as_far_as_policy_allows(address, how, seen):
    assert shown(address, how) == seen
