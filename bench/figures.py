"""What a bench measures and how it is said. A figure is a ratio: ours to a limit measured in the same run, the two
taken in turns so that a noisy neighbour disturbs both."""

import itertools
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

RUNS = 5


@dataclass(frozen=True)
class Figure:
    name: str
    value: float
    unit: str
    limit: float
    ratio: float
    bar: float
    at_least: bool = True

    @property
    def ok(self) -> bool:
        return self.ratio >= self.bar if self.at_least else self.ratio <= self.bar

    def as_json(self) -> str:
        return json.dumps(
            {
                "name": self.name,
                "value": round(self.value, 2),
                "unit": self.unit,
                "limit": round(self.limit, 2),
                "ratio": round(self.ratio, 4),
                "bar": self.bar,
                "ok": self.ok,
            }
        )


def in_turns(name: str, unit: str, ours: Callable[[], float], limit: Callable[[], float], bar: float) -> Figure:
    """Medians of RUNS runs of each, alternating; the ratio is the median of the runs' own ratios."""
    run = itertools.count()

    def both() -> tuple[float, float]:
        if next(run) % 2:
            return ours(), limit()
        theirs = limit()
        return ours(), theirs

    return beside(name, unit, both, bar)


def beside(name: str, unit: str, both: Callable[[], tuple[float, float]], bar: float) -> Figure:
    """As `in_turns`, for what is measured at once: `both` gives ours and the limit of one run."""
    pairs: list[tuple[float, float]] = []
    for _ in range(RUNS):
        mine, theirs = both()
        pairs.append((mine, theirs))
        sys.stderr.write(f"  {name}: {mine:,.0f} of {theirs:,.0f} {unit}\n")
    return Figure(
        name,
        statistics.median(mine for mine, _ in pairs),
        unit,
        statistics.median(theirs for _, theirs in pairs),
        statistics.median(mine / theirs for mine, theirs in pairs),
        bar,
    )


def bounded(name: str, unit: str, value: float, limit: float) -> Figure:
    """A figure that has to stay below its limit."""
    return Figure(name, value, unit, limit, value / limit, 1.0, at_least=False)


def table(figures: list[Figure]) -> str:
    rows = [("figure", "ours", "limit", "unit", "ratio", "bar", "")]
    rows += [
        (
            f.name,
            f"{f.value:,.1f}",
            f"{f.limit:,.1f}",
            f.unit,
            f"{f.ratio:.2f}",
            f"{'≥' if f.at_least else '≤'} {f.bar:.2f}",
            "ok" if f.ok else "MISSED",
        )
        for f in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
