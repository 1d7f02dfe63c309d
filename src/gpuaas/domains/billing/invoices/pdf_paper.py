"""A paper as PDF. The same document gives the same bytes: nothing in it is of the moment at which it is made.

The font (DejaVu Sans, a part of it) has Latin, Greek, Cyrillic, Armenian and Georgian letters. What it has not is
printed as an empty box; the CSV has every text as it is."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from fpdf import FPDF
from fpdf.enums import TableBordersLayout, VAlign
from fpdf.fonts import FontFace, TTFFont

from gpuaas.contracts.http.invoices import StatementView
from gpuaas.domains.billing.invoices.csv_paper import SUMS
from gpuaas.domains.billing.invoices.models import Document
from gpuaas.kit.money import format_micros

_FONTS = Path(__file__).parent / "fonts"
_FAMILY = "DejaVu"
_BOX = "\u25af"
_GREY, _LINE, _SHADE = (105, 110, 118), (205, 209, 214), (243, 245, 247)
_MARGIN, _SMALL, _BODY, _TITLE = 16.0, 7.2, 8.2, 20.0
_KINDS = {
    "top_up": "top-up",
    "usage_credit": "given back",
    "credit": "credit",
    "refund": "refund",
    "adjustment": "correction",
    "reversal": "reversal",
}
HOUR_SECONDS = 3_600


def render(document: Document) -> bytes:
    paper = _Paper(document)
    statement = document.statement
    paper.head()
    paper.balance()
    paper.part(
        "Use",
        ("Project", "Cost centre", "SKU", "GPU hours", "Price an hour", "Amount"),
        (34, 24, 40, 24, 26, 30),
        [
            (
                use.project_title or use.project,
                use.cost_centre,
                use.sku,
                _hours(use.gpu_seconds),
                format_micros(use.micros_per_gpu_hour),
                format_micros(-use.micros),
            )
            for use in statement.usage
        ],
        numbers=3,
        note="GPU hours are usable time: what ran without being usable is not in them. Each allocation's amount is its "
        "price for its seconds, rounded down once.",
    )
    paper.part(
        "Other changes of the balance",
        ("Time (UTC)", "What", "Why", "Amount"),
        (37, 23, 88, 30),
        [
            (_instant(one.at), _KINDS.get(one.kind, one.kind), one.reason, format_micros(one.micros))
            for one in statement.entries
        ],
        numbers=1,
        note="" if not statement.left_out else f"{statement.left_out} more are in the sums above and in the ledger.",
    )
    paper.part(
        "Not charged: times in which something was not usable",
        ("From (UTC)", "Until (UTC)", "Allocation", "Why", "Worth"),
        (37, 37, 42, 36, 26),
        [
            (
                _instant(one.from_at),
                "" if one.until_at is None else _instant(one.until_at),
                f"{one.project}, {str(one.allocation_id)[-12:]}",
                f"{one.reason} ({one.seconds} s)",
                format_micros(one.micros),
            )
            for one in statement.unusable
        ],
        numbers=1,
    )
    return bytes(paper.output())


class _Paper(FPDF):
    def __init__(self, document: Document) -> None:
        super().__init__(format="A4")
        self.document = document
        self.statement: StatementView = document.statement
        self.called = f"Invoice {document.number}" if document.number else "Statement"
        self.set_creation_date(document.issued_at)
        self.set_title(self.called)
        self.set_producer("gpuaas")
        self.add_font(_FAMILY, "", _FONTS / "DejaVuSans.ttf")
        self.add_font(_FAMILY, "B", _FONTS / "DejaVuSans-Bold.ttf")
        drawn = self.fonts[_FAMILY.lower()]
        assert isinstance(drawn, TTFFont)  # noqa: S101 # it was added from a file
        self.letters = frozenset(drawn.cmap)
        self.set_margins(_MARGIN, _MARGIN, _MARGIN)
        self.set_auto_page_break(True, margin=20)
        self.alias_nb_pages()
        self.add_page()

    def footer(self) -> None:
        self.set_y(-13)
        self._font(_SMALL, colour=_GREY)
        whose = self.printable(self.statement.org_title or self.statement.org_name)[:60]
        self.cell(0, 4, f"{self.called} · {whose} · page {self.page_no()} of {{nb}}", align="C")

    def head(self) -> None:
        statement = self.statement
        self._font(_TITLE, bold=True)
        self.cell(0, 11, self.called, new_x="LMARGIN", new_y="NEXT")
        self._font(_BODY, colour=_GREY)
        self.cell(
            0, 5, f"{_instant(statement.from_at)} to {_instant(statement.to_at)} UTC", new_x="LMARGIN", new_y="NEXT"
        )
        self.ln(5)
        top, half = self.get_y(), self.epw / 2
        customer = [statement.org_title, statement.org_name if statement.org_name != statement.org_title else ""]
        low = self._block("For", [*customer, f"organisation {statement.org_id}"], self.l_margin, top, half)
        said = "Issued" if self.document.number else "Made"
        issued = [*self.document.seller.splitlines()[:8], f"{said} {_instant(self.document.issued_at)} UTC"]
        self.set_y(max(low, self._block("From", issued, self.l_margin + half, top, half)) + 5)

    def _block(self, name: str, lines: Iterable[str], x: float, y: float, width: float) -> float:
        self.set_xy(x, y)
        self._font(_SMALL, colour=_GREY)
        self.cell(width, 4.5, name, new_x="LEFT", new_y="NEXT")
        self._font(_BODY)
        for line in filter(None, lines):
            self.multi_cell(width, 4.3, self.printable(line), align="L", new_x="LEFT", new_y="NEXT")
        return self.get_y()

    def balance(self) -> None:
        statement = self.statement
        begins, ends = _instant(statement.from_at), _instant(statement.to_at)
        changes = [(name.capitalize(), getattr(statement.sums, field)) for field, name in SUMS.items()]
        rows = [(f"Balance at {begins}", statement.opening_micros), *((n, m) for n, m in changes if m)]
        self._heading("Balance", "")
        self._rows(
            ("", f"Amount ({statement.currency})"),
            (138, 40),
            [(name, format_micros(micros)) for name, micros in rows],
            numbers=1,
            last=(f"Balance at {ends}", format_micros(statement.closing_micros)),
        )
        if self.document.number:
            self._font(_SMALL, colour=_GREY)
            self.ln(1.5)
            self.multi_cell(
                0, 3.8, "Use is paid from the balance as it happens: nothing of this is left to pay.", align="L"
            )

    def part(
        self,
        title: str,
        names: Sequence[str],
        widths: Sequence[int],
        rows: Sequence[Sequence[str]],
        *,
        numbers: int,
        note: str = "",
    ) -> None:
        if rows:
            self._heading(title, note)
            self._rows(names, widths, rows, numbers=numbers)

    def _heading(self, title: str, note: str) -> None:
        self.ln(6)
        if self.will_page_break(28):
            self.add_page()
        self._font(_BODY + 2.3, bold=True)
        self.cell(0, 6, title, new_x="LMARGIN", new_y="NEXT")
        if note:
            self._font(_SMALL, colour=_GREY)
            self.multi_cell(0, 3.8, note, align="L", new_x="LMARGIN", new_y="NEXT")
        self.ln(1)

    def _rows(
        self,
        names: Sequence[str],
        widths: Sequence[int],
        rows: Sequence[Sequence[str]],
        *,
        numbers: int,
        last: Sequence[str] = (),
    ) -> None:
        """The last columns, which are numbers, stand at the right."""
        self._font(_BODY)
        self.set_draw_color(*_LINE)
        aligned = tuple("LEFT" if place < len(names) - numbers else "RIGHT" for place in range(len(names)))
        with self.table(
            col_widths=tuple(widths),
            text_align=aligned,
            line_height=4.6,
            v_align=VAlign.T,
            padding=(0.9, 1.2),
            borders_layout=TableBordersLayout.HORIZONTAL_LINES,
            headings_style=FontFace(emphasis="", color=_GREY, fill_color=_SHADE, size_pt=_SMALL),
        ) as drawn:
            drawn.row(names)
            for row in rows:
                drawn.row([self.printable(cell) for cell in row])
            if last:
                drawn.row([self.printable(cell) for cell in last], style=FontFace(emphasis="BOLD"))

    def printable(self, text: str) -> str:
        """With a box for each letter that the font has not."""
        return "".join(letter if ord(letter) in self.letters else _BOX for letter in text)

    def _font(self, size: float, *, bold: bool = False, colour: tuple[int, int, int] = (25, 28, 32)) -> None:
        self.set_font(_FAMILY, "B" if bold else "", size)
        self.set_text_color(*colour)


def _instant(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _hours(seconds: int) -> str:
    """Exactly: hours, minutes, seconds."""
    return f"{seconds // HOUR_SECONDS}:{seconds % HOUR_SECONDS // 60:02d}:{seconds % 60:02d}"
