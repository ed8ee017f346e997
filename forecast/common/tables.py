"""Tables as Markdown, CSV and terminal output."""

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
"""Width of tables in characters."""

MARKS = {"✓": "green", "✗": "bold red"}
"""Terminal colours of symbols."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A table of text, escaped by each writer for its format; the first `words` columns are aligned left."""

    title: str
    headings: Sequence[str]
    cells: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    words: int = 1

    def to_markdown(self, level: int = 2) -> str:
        """Return the table as Markdown: the title as a heading of that level, the notes as a list."""
        head = [f"{'#' * level} {inert(self.title)}", ""] if self.title else []
        rule = "|" + "---|" * self.words + "---:|" * (len(self.headings) - self.words)
        notes = ["", *(f"- {inert(note)}" for note in self.notes)] if self.notes else []
        return "\n".join([*head, _line(self.headings), rule, *map(_line, self.cells), *notes, *([""] if head else [])])

    def to_terminal(self, *, compact: bool = False) -> "TerminalTable":
        """Return the table for rich; a compact table has no grid and folds its first column. Numbers are never cut."""
        from rich import box  # imported here: most writers of tables print nothing
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
                min_width=max((len(row[place]) for row in self.cells if place < len(row)), default=None)
                if place >= self.words
                else None,
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
    for item in tables:
        output = item.to_terminal()
        output.title_justify = output.caption_justify = "left"
        console.print(output)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table of text without a title."""
    return Table("", headings, rows, words=len(headings)).to_markdown()


def to_csv(rows: Sequence[Row]) -> bytes:
    """Return rows with the same keys as a CSV file; None is an empty cell."""
    return csv_bytes(rows, list(rows[0]))


def inert(text: str) -> str:
    """Escape a line of text so that no name in it becomes a tag, a link or an image."""
    return shown(text).replace("<", "&lt;").replace("](", "]\\(")


def _line(cells: Sequence[str]) -> str:
    escaped = (inert(cell).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def write_between(path: Path, begin: str, end: str, content: str) -> None:
    """Replace the text between two marks, each of which is in the file once."""
    if not path.is_file():
        raise InputError(f"{path}: no such file: name a file with the lines {begin} and {end}")
    text = path.read_text(encoding="utf-8")
    if (text.count(begin), text.count(end)) != (1, 1) or text.index(begin) > text.index(end):
        raise InputError(f"{path}: must have the lines {begin} and {end} once each: add them around the table")
    before, after = text[: text.index(begin)], text[text.index(end) :]
    with replacing(path) as file:
        file.write(f"{before}{begin}\n{content}\n{after}".encode())
