"""Amounts as people write and read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.kit.money import MAX_MICROS, NotAnAmount, format_micros, parse_micros


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("0", 0),
        ("12", 12_000_000),
        ("12.5", 12_500_000),
        ("-12.50", -12_500_000),
        ("+0.000001", 1),
        ("1000000000", MAX_MICROS),
    ],
)
def test_what_is_written_is_taken_exactly(text: str, micros: int):
    assert parse_micros(text) == micros


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "1.",
        ".5",
        "1,5",
        "1e3",
        "1_000",
        "NaN",
        "inf",
        "1.0000001",
        "1000000001",
        "٣",
        " 1",
        "1 ",
        "1\n",
        "--1",
    ],
)
def test_anything_else_is_not_taken(text: str):
    with pytest.raises(NotAnAmount):
        parse_micros(text)


@given(st.integers(-MAX_MICROS, MAX_MICROS))
def test_what_is_printed_reads_as_what_it_was(micros: int):
    assert parse_micros(format_micros(micros)) == micros


@pytest.mark.parametrize(
    ("micros", "text"), [(0, "0.00 USD"), (-1, "-0.000001 USD"), (12_500_000, "12.50 USD"), (1_230_000, "1.23 USD")]
)
def test_two_places_are_always_shown(micros: int, text: str):
    assert format_micros(micros, "USD") == text
