"""Tables for a person: Markdown, CSV and the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forecast.common.errors import InputError
from forecast.common.files import replacing
from forecast.common.spreadsheet import csv_bytes
from forecast.common.text import shown

if TYPE_CHECKING:
    from rich.console import Console


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, a cell of each row for each heading."""
    lines = ["| " + " | ".join(row) + " |" for row in (headings, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(headings), *lines[1:]])


def inert(text: str) -> str:
    """Return a text of one line such that no name in it becomes a tag, a link or a picture of a page."""
    return shown(text).replace("<", "&lt;").replace("](", "]\\(")


def between(text: str, begin: str, end: str) -> str:
    """Return what stands between two marks, without the empty lines around it."""
    return text.partition(begin)[2].partition(end)[0].strip()


def write_between(path: Path, begin: str, end: str, content: str) -> None:
    """Put `content` between the two marks in the file.

    Raises
    ------
    InputError
        If the file is not there or has not each mark once, in their order.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file: give one with the lines {begin} and {end}")
    text = path.read_text(encoding="utf-8")
    if (text.count(begin), text.count(end)) != (1, 1) or text.index(begin) > text.index(end):
        raise InputError(f"{path}: needs the lines {begin} and {end}, once each: the table goes between")
    before, after = text[: text.index(begin)], text[text.index(end) :]
    with replacing(path) as file:
        file.write(f"{before}{begin}\n{content}\n{after}".encode())


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
