"""Tables for a person: the class, its Markdown, its CSV and its form in a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forecast.common.markdown import inert
from forecast.common.spreadsheet import csv_bytes

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 120
"""Letters of a line that tables are laid out for."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Sheet:
    """A table: its title, headings, cells, and what has to be said beneath it."""

    title: str
    headings: tuple[str, ...]
    cells: list[list[str]]
    notes: tuple[str, ...] = ()


def markdown(sheet: Sheet, level: int = 2) -> str:
    """Return a table as Markdown under a heading of that level, the notes as a list beneath."""
    lines = [f"{'#' * level} {inert(sheet.title)}", "", _line(sheet.headings)]
    lines.append(_line(["---", *["---:"] * (len(sheet.headings) - 1)]))
    lines += [_line(cells) for cells in sheet.cells]
    lines += ["", *(f"- {inert(note)}" for note in sheet.notes), ""] if sheet.notes else [""]
    return "\n".join(lines)


def show(console: "Console", sheets: Sequence[Sheet]) -> None:
    """Print tables."""
    from rich.table import Table  # here, since most who write tables print none

    for sheet in sheets:
        table = Table(title=sheet.title, title_justify="left", caption="\n".join(sheet.notes), caption_justify="left")
        for place, heading in enumerate(sheet.headings):
            table.add_column(heading, justify="right" if place else "left", no_wrap=not place)
        for cells in sheet.cells:
            table.add_row(*cells)
        console.print(table)


def to_csv(rows: Sequence[Row]) -> bytes:
    """Return rows of the same keys as a CSV file; None is an empty cell."""
    return csv_bytes(rows, list(rows[0]))


def _line(cells: Sequence[str]) -> str:
    escaped = (inert(cell).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
