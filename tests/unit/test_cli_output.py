"""What the command line prints for people and for programs."""

import io

import pytest

from gpuaas.kit.ids import new_id
from gpuaas.processes.cli.output import Column, Output, show
from gpuaas.processes.cli.text import clean, clean_json

ROW = (str(new_id()), "research", "a title that is longer than any id and so may be folded onto several lines")
COLUMNS: list[Column[tuple[str, str, str]]] = [
    ("name", lambda row: row[1]),
    ("title", lambda row: row[2]),
    ("id", lambda row: row[0]),
]


class Screen(io.StringIO):
    """Somebody looks."""

    def isatty(self) -> bool:
        return True


def printed(
    monkeypatch: pytest.MonkeyPatch, columns: int, out: io.StringIO, *, colour: bool = False
) -> tuple[str, str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    err = io.StringIO()
    Output(json=False, colour=colour, out=out, err=err).table(COLUMNS, [ROW], empty="None.")
    return out.getvalue(), err.getvalue()


def test_a_program_gets_each_row_on_one_line_however_long(monkeypatch: pytest.MonkeyPatch):
    out, err = printed(monkeypatch, 20, io.StringIO(), colour=True)
    assert [line.split("  ")[0] for line in out.splitlines()] == ["NAME", "research"]
    assert ROW[0] in out
    assert ROW[2] in out
    assert err == ""
    assert "\x1b" not in out


def test_on_a_screen_text_folds_and_an_id_does_not(monkeypatch: pytest.MonkeyPatch):
    out, err = printed(monkeypatch, 80, Screen())
    assert ROW[0] in out
    assert len(out.splitlines()) > 2
    assert max(map(len, out.splitlines())) <= 80
    assert err == ""


def test_a_column_without_room_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch):
    out, err = printed(monkeypatch, 50, Screen())
    assert ROW[0][:8] not in out
    assert "Left out for lack of room: id." in err


def test_a_table_without_rows_says_so_beside_the_answer():
    out, err = io.StringIO(), io.StringIO()
    Output(json=False, colour=False, out=out, err=err).table(COLUMNS, [], empty="There are none.")
    assert (out.getvalue(), err.getvalue()) == ("", "There are none.\n")


def test_json_goes_to_a_program_as_it_came_and_to_a_person_indented():
    body = '{"a":"\x9b31m\\u001b","b":[1]}'.encode()
    out, screen = io.StringIO(), Screen()
    Output(json=True, colour=False, out=out).raw(body)
    assert out.getvalue().encode() == body + b"\n"
    Output(json=True, colour=True, out=screen).raw(body)
    assert screen.getvalue() == '{\n  "a": "\\u009b31m\\u001b",\n  "b": [\n    1\n  ]\n}\n'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain – ünïcode 漢字", "plain – ünïcode 漢字"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\nb\rc\td", "a\\x0ab\\x0dc\\x09d"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
    ],
)
def test_what_a_terminal_would_act_on_is_written_out(text: str, shown: str):
    assert clean(text) == shown
    assert show(text) == shown


def test_json_keeps_its_values_and_its_lines():
    assert clean_json('{\n "a": "\u202e"\n}') == '{\n "a": "\\u202e"\n}'
