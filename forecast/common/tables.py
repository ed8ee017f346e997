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
    from rich.table import Table as TerminalTable

WIDTH = 120
"""Characters of a line that tables are laid out for."""

MARKS = {"✓": "green", "✗": "bold red"}
"""Colours of signs in a terminal."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A table of text, escaped by each writer for its format; its first `words` columns are words, aligned left."""

    title: str
    headings: Sequence[str]
    cells: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    words: int = 1

    def to_markdown(self, level: int = 2) -> str:
        """Return the table as Markdown: the title, if any, as a heading of that level, the notes as a list."""
        head = [f"{'#' * level} {inert(self.title)}", ""] if self.title else []
        rule = "|" + "---|" * self.words + "---:|" * (len(self.headings) - self.words)
        notes = ["", *(f"- {inert(note)}" for note in self.notes)] if self.notes else []
        return "\n".join([*head, _line(self.headings), rule, *map(_line, self.cells), *notes, *([""] if head else [])])

    def to_terminal(self, *, compact: bool = False) -> "TerminalTable":
        """Return the table for rich; a compact one has no grid and folds its first column."""
        from rich import box  # here, since most who write tables print none
        from rich.table import Table as TerminalTable
        from rich.text import Text

        look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0), "pad_edge": False} if compact else {}
        table = TerminalTable(
            title=Text(shown(self.title), "table.title") if self.title else None,
            caption=Text("\n".join(map(shown, self.notes)), "table.caption") if self.notes else None,
            **look,
        )
        for place, heading in enumerate(self.headings):
            table.add_column(
                Text(heading),
                justify="left" if place < self.words else "right",
                no_wrap=bool(place) == compact,
                overflow="fold" if compact and not place else "ellipsis",
            )
        for cells in self.cells:
            texts = [Text(shown(cell)) for cell in cells]
            for text in texts:
                for sign, style in MARKS.items():
                    text.highlight_words([sign], style)
            table.add_row(*texts)
        return table


def show(console: "Console", tables: Sequence[Table]) -> None:
    """Print tables, titles and notes aligned left."""
    for each in tables:
        shown = each.to_terminal()
        shown.title_justify = shown.caption_justify = "left"
        console.print(shown)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table of words, without a title."""
    return Table("", headings, rows, words=len(headings)).to_markdown()


def to_csv(rows: Sequence[Row]) -> bytes:
    """Return rows of the same keys as a CSV file; None is an empty cell."""
    return csv_bytes(rows, list(rows[0]))


def inert(text: str) -> str:
    """Return a line of text such that no name in it becomes a tag, a link or a picture of a page."""
    return shown(text).replace("<", "&lt;").replace("](", "]\\(")


def _line(cells: Sequence[str]) -> str:
    escaped = (inert(cell).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def write_between(path: Path, begin: str, end: str, content: str) -> None:
    """Replace the text between the two marks in a file, which has each of them once."""
    if not path.is_file():
        raise InputError(f"{path}: no such file: give one with the lines {begin} and {end}")
    text = path.read_text(encoding="utf-8")
    if (text.count(begin), text.count(end)) != (1, 1) or text.index(begin) > text.index(end):
        raise InputError(f"{path}: needs the lines {begin} and {end}, once each: the table goes between")
    before, after = text[: text.index(begin)], text[text.index(end) :]
    with replacing(path) as file:
        file.write(f"{before}{begin}\n{content}\n{after}".encode())
